/* Declared variables begin as 0, and wrap at their size. */
#pragma D option quiet
int8_t small; uint8_t byte; uint32_t word; int64_t large; string text;
BEGIN { printf("%d %d %d %d [%s]\n", small, byte, word, large, text); }
BEGIN { small = 127; small++; byte--; word--; large--; printf("%d %d %d %d\n", small, byte, word, large); exit(0); }
