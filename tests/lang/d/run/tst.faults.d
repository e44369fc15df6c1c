/* A fault aborts its clause only: what it did before remains, what it recorded does not. */
#pragma D option quiet
int b; int c;
BEGIN { a = 1; printf("before\n"); b = a / c; a = 2; }
BEGIN { printf("not this\n"); b = 7; b %= c; }
BEGIN /1 % c/ { printf("not this\n"); }
BEGIN { @x[1] = sum(1); @x[1 / c] = sum(5); }
BEGIN { printa("%d %@d\n", @x); printf("%d %d\n", a, b); exit(0); }
