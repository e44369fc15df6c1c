/* A bit-field of an enumeration has no sign, unless an enumerator has. */
#pragma D option quiet
enum e { A = 2 }; enum s { B = 2, C = -1 }; struct b { enum e e : 2; enum s s : 2; }; struct b x;
BEGIN { x.e = A; x.s = C; printf("%d %d\n", x.e, x.s); exit(0); }
