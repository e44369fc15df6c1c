/* ?: with a constant condition chooses what the clause does, among actions and aggregations too. */
#pragma D option quiet
inline int OPT_a = 1; inline int OPT_b = 0;
BEGIN { OPT_a ? printf("a\n") : 1; OPT_b ? printf("b\n") : printf("not b\n"); OPT_b == 0 ? @x = count() : 1; }
BEGIN { OPT_b ? @y = count() : 1; OPT_b ? nonesuch() : 1; printa("%@d\n", @x); exit(0); }
