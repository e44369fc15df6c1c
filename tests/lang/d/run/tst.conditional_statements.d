/* ?: whose condition is not known chooses among actions as if does. */
#pragma D option quiet
int x;
BEGIN { x == 0 ? printf("none\n") : printf("some\n"); x++; x != 0 ? printf("some\n") : 1; exit(0); }
