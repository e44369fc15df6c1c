/* Two speculations at once do not mix. */
#pragma D option quiet
#pragma D option nspec=2
BEGIN { x = speculation(); y = speculation(); printf("%d %d %d\n", x, y, speculation()); }
BEGIN { speculate(x); printf("x1\n"); }
BEGIN { speculate(y); printf("y1\n"); }
BEGIN { speculate(x); printf("x2\n"); }
BEGIN { discard(y); }
BEGIN { commit(x); }
BEGIN { exit(0); }
