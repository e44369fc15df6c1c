/* Operators bind as in C, and go from left to right. */
#pragma D option quiet
BEGIN { printf("%d %d %d %d\n", 2 + 3 * 4, (2 + 3) * 4, 20 - 5 - 3, 100 / 7 % 5); }
BEGIN { printf("%d %d %d %d\n", 1 << 2 + 1, 6 & 3 | 8 ^ 1, !0 + !5, ~5); }
BEGIN { printf("%d %d %d\n", -7 / 2, -7 % 2, -7 >> 1); }
BEGIN { printf("%d %d %d\n", (1, 2, 3), 1 ? 2 ? 3 : 4 : 5, 5 > 4 == 1); exit(0); }
