/* Pointers move by what they point to, and their distance is in that too. */
#pragma D option quiet
struct s { long a; int b; };
BEGIN { p = (struct s *)0x1000; q = p + 2; printf("%x %d %x\n", (long)q, q - p, (long)&q->b); }
BEGIN { q++; q -= 1; --q; printf("%x %x %x\n", (long)q, (long)(p - 1), (long)&p[3].b); exit(0); }
