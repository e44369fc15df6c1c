/* A header may declare types again that D has, if they are as wide. */
#pragma D option quiet
typedef unsigned long ino_t;
typedef unsigned int id_t;
id_t n;
BEGIN { n = -1; printf("%u %d\n", n, sizeof (ino_t)); exit(0); }
