/* A size is a number. */
#pragma D option bufsize=large
