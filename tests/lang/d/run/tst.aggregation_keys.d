/* Rows are sorted by value, then by key; keys of several types stand in columns. */
#pragma D option quiet
BEGIN { @a["x", 1] = sum(3); @a["y", 2] = sum(1); @a["x", 2] = sum(2); @a["w", 9] = sum(2); exit(0); }
END { printa("%s %d: %@d\n", @a); printa(@a); }
