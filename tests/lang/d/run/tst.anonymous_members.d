/* The members of a struct without a name are those of what it is in. */
#pragma D option quiet
struct s { int kind; union { long number; struct { int low; int high; }; }; };
struct s x;
BEGIN { x.number = 0x200000001; printf("%d %d %d\n", x.low, x.high, offsetof(struct s, high)); exit(0); }
