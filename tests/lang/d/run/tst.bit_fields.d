/* Bit-fields hold as many bits as they have, with their sign, and leave their neighbours alone. */
#pragma D option quiet
struct b { int a : 3; unsigned int b : 5; int c : 24; unsigned long d : 40; char e; };
struct b x;
BEGIN { printf("%d\n", sizeof (struct b)); x.a = 3; x.b = 31; x.c = -1; x.d = 0xffffffffffUL; }
BEGIN { printf("%d %d %d %d\n", x.a, x.b, x.c, x.d); x.b = 0; x.a++; printf("%d %d %d %d\n", x.a, x.b, x.c, x.d); }
BEGIN { printf("%d %d %d\n", x.a = 9, ++x.d, x.b -= 1); printf("%d %d %d %d %d\n", x.a, x.b, x.c, x.d, x.e); exit(0); }
