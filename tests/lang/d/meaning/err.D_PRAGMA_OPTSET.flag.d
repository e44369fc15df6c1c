/* A flag is on or off. */
#pragma D option quiet=perhaps
