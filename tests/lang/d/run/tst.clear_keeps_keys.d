/* clear() keeps the keys and forgets the values. */
#pragma D option quiet
BEGIN { @a["x"] = sum(5); @a["y"] = sum(6); exit(0); }
END { printa("%s %@d\n", @a); clear(@a); printa("%s %@d\n", @a); }
