/* printf() has C's conversions, by the argument's own size. */
#pragma D option quiet
BEGIN { x = -5; c = (char)-1; printf("[%5d] [%-5d] [%05d] [%+d] [%u] [%x] [%u]\n", x, x, x, 7, x, x, c); }
BEGIN { printf("[%o] [%#o] [%#x] [%X] [%i] [%c] [%3c] [%%]\n", 8, 8, 255, 255, 3, 'A', 66); }
BEGIN { printf("[%s] [%6s] [%-6s] [%.2s] [%*d] [%-*d] [%.*s]\n", "abc", "abc", "abc", "abc", 4, 1, 4, 1, 1, "xyz"); }
BEGIN { printf("[%hd] [%ld] [%lld] [%hhx] [%.3d]\n", (short)-2, 1 - 2L, 3LL, (char)-1, 5); printf("[%p] [%20p]\n", 16, (int *)255); exit(0); }
