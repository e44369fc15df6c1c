/* <<= and >>= are done in 64 bits, and cut where they are stored. */
#pragma D option quiet
int8_t a; uint64_t b;
BEGIN { a = 1; a <<= 33; b = 1; b <<= 33; printf("%d %d\n", a, b); a = -8; a >>= 1L; printf("%d\n", a); exit(0); }
