/* A translator's members are computed from what is translated: a pointer, a struct or a number, which is evaluated once. */
#pragma D option quiet
struct in { int a; struct in *next; char name[8]; };
typedef struct out { int x; long y; string s; char t[8]; struct out *o; } out_t;
translator out_t < struct in *I > { x = I->a * 2; y = (long)I; };
translator out_t < struct in I > { x = I.a; t = I.name; };
translator out_t < int n > { x = n + 1; y = -n; s = n ? "yes" : "no"; t = "x"; o = xlate <out_t *> (n + 10); };
inline out_t *now = xlate <out_t *> (41);
inline out_t of[int n, int m] = xlate <out_t> (n * m);
struct in v; this struct in w; int i;

BEGIN { printf("%d %d %s %s %d\n", now->x, now->y, now->s, now->t, now->o->x); }
BEGIN { printf("%d %s %d\n", of[6, 7].x, (*now).s, now->o->o->x); }
BEGIN { v.a = 5; v.name[0] = 'q'; printf("%d %s\n", xlate <out_t> (v).x, xlate <out_t> (v).t); }
BEGIN { this->w.a = 9; printf("%d\n", xlate <out_t> (this->w).x); }
BEGIN { printf("%d", xlate <out_t> (i++).x); printf(" %d %s\n", i, xlate <out_t *> (i - 1)->s); }
BEGIN { printf("%d\n", sizeof (*now) == sizeof (out_t)); }
BEGIN { trace(xlate <out_t *> ((struct in *)16)->x); }
ERROR { printf("fault %d at %x\n", arg4, arg5); exit(0); }
