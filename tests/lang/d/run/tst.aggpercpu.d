/* What each processor has counted follows the sum; keys do not show it, and trunc() takes all away. */
#pragma D option quiet
#pragma D option aggpercpu
BEGIN { @["a", 1] = sum(3); @["b", 2] = sum(5); @c = count(); @c = count(); @l = min(7); exit(0); }
END { printa("%s %d %@d\n", @); trunc(@, 1); printa("%s %@d\n", @); printa("%@d %@d\n", @c, @l); }
