/* A copy that begins in memory of alloca() and ends behind it has a wrong size. */
#pragma D option quiet
BEGIN { bcopy("ab", (char *)alloca(16) + 14, 2); printf("fits "); }
BEGIN { bcopy("ab", (char *)alloca(16) + 15, 2); printf("NO"); }
BEGIN { this->from = alloca(8); bcopy(this->from, (char *)alloca(16) + 9, 8); printf("NO"); }
ERROR { printf("%d ", arg4); }
BEGIN { exit(0); }
