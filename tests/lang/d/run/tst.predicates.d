/* A clause whose predicate is false does nothing; 0 is false, and so is NULL. */
#pragma D option quiet
int x;
BEGIN /0/ { printf("0\n"); }
BEGIN /1/ { printf("1\n"); }
BEGIN /-1 && !x++/ { printf("-1 %d\n", x); }
BEGIN /x == 1 && probename == "BEGIN"/ { printf("name\n"); }
BEGIN /NULL/ { printf("NULL\n"); }
BEGIN /x > 1 ^^ x < 1/ { printf("xor\n"); }
BEGIN { exit(0); }
