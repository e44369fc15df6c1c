/* What an inline translates may be computed from its parameters, which stand for values that are computed before. */
#pragma D option quiet
typedef struct pair { int one; int two; } pair_t;
translator pair_t < int n > { one = n; two = n * 2; };
inline pair_t of[int n, int m] = xlate <pair_t> (n * m + n);
int i;

BEGIN { i = 3; printf("%d %d\n", of[i, 4].one, of[i + 1, i].two); exit(0); }
