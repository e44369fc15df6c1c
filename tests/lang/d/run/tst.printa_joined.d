/* printa() of several puts those with the same keys side by side; what one lacks is 0. */
#pragma D option quiet
BEGIN { @a["x"] = sum(5); @a["y"] = sum(1); @b["x"] = count(); @b["z"] = count(); exit(0); }
END { printa("%s %@d %@d\n", @a, @b); printa(@a, @b); }
