/* All keys count, and their order: strings are compared as a whole. */
#pragma D option quiet
BEGIN { a["ab", 1] = 1; a["ab", 2] = 2; a["abc", 1] = 3; a["", 1] = 4; }
BEGIN { printf("%d %d %d %d %d\n", a["ab", 1], a["ab", 2], a["abc", 1], a["", 1], a["a", 1]); }
BEGIN { b[1, "x", 2] = 5; b[2, "x", 1] = 6; printf("%d %d %d\n", b[1, "x", 2], b[2, "x", 1], b[1, "x", 1]); exit(0); }
