/* A base that there is not is an illegal operation. */
#pragma D option quiet
BEGIN { printf("not %s\n", lltostr(1, 99)); }
BEGIN { printf("not %d\n", strtoll("1", 1)); }
BEGIN { lltostr(5, 0); printf("nor this\n"); }
BEGIN { exit(0); }
