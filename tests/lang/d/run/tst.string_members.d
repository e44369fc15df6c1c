/* A string can be a member. Pointers to strings step by their size, and are followed with care. */
#pragma D option quiet
struct s { int a; string b; int c; };
struct s x; self struct s y; struct s m[int]; int size;
BEGIN { x.b = "hello"; x.c = 7; x.a = 1; self->y = x; m[3] = x; p = (string *)NULL; size = sizeof (string); }
BEGIN { printf("%s %d %d %s %s\n", x.b, x.c, sizeof (x) == 8 + size, self->y.b, m[3].b); }
BEGIN { printf("%d %d %d\n", (int)(p + 1) == size, (p + 3) - p, (int)(2 + p) == 2 * size); }
BEGIN { trace(*(string *)16); }
BEGIN { trace(((struct s *)16)->b); }
ERROR { printf("fault %d at %d\n", arg4, arg5); n++; }
ERROR /n == 2/ { exit(0); }
