/* One option a line. */
#pragma D option quiet destructive
