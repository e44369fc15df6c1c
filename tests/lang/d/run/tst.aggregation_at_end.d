/* What no one has printed is printed at the end, in the order of definition. */
#pragma D option quiet
BEGIN { @b[1] = count(); @a[(char)2, "k", 3L] = sum(-4); @c = max(7); exit(0); }
END { printa("%@d\n", @c); }
