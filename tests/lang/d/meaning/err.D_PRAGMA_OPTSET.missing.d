/* And it must be given. */
#pragma D option bufsize
