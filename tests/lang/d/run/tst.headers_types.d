/* What a header declares again of the types that D has is taken, if it is as wide. */
#pragma D option quiet
typedef unsigned long ino_t;
typedef unsigned int id_t;
id_t n;
BEGIN { n = -1; printf("%u %d\n", n, sizeof (ino_t)); exit(0); }
