/* An index that is computed is checked: the fault aborts its clause, and no other. */
#pragma D option quiet
int a[3];
BEGIN { i = 3; }
BEGIN { printf("before\n"); a[i] = 1; printf("after\n"); }
BEGIN { i = -1; trace(a[i]); }
BEGIN { printf("next %d\n", a[2]); exit(0); }
