/* A header of C may declare a type that a library of D has: D's counts. */
#pragma D option quiet
# 1 "test.d"
# 1 "header.h" 1
typedef unsigned int psetid_t;
struct held { psetid_t set; char last; };
# 2 "test.d" 2
BEGIN { printf("%d %d %d\n", sizeof (psetid_t), (psetid_t)-1 < 0, sizeof (struct held)); exit(pset); }
