/* index() finds the first, rindex() the last, from where they are told to begin; -1 is nowhere. */
#pragma D option quiet
BEGIN { s = "banana"; printf("%d %d %d %d\n", index(s, "an"), rindex(s, "an"), index(s, "x"), rindex(s, "x")); }
BEGIN { printf("%d %d %d %d\n", index(s, "an", 2), rindex(s, "an", 2), index(s, "an", 4), index(s, "a", -5)); }
BEGIN { printf("%d %d %d %d\n", index(s, ""), rindex(s, ""), index("", "a"), index(s, "bananas")); exit(0); }
