/* An option has a name. */
#pragma D option
