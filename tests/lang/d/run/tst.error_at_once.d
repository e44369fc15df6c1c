/* ERROR fires before the clauses that follow the one that failed, and can have them not run at all. */
#pragma D option quiet
int n;
BEGIN, END { printf("%s, n is %d\n", probename, n); }
BEGIN { n = 1; trace(1 / (n - 1)); }
BEGIN { printf("next, n is %d\n", n); }
BEGIN { this->a = 7; trace(this->a + *(int *)16); }
BEGIN { printf("never\n"); }
ERROR { printf("%s: clause %d of probe %d failed by %d\n", probename, arg2, arg1, arg4); n += 10; }
ERROR /n == 21/ { exit(0); }
