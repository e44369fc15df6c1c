/* A text has the size of an array of characters that holds it: as in C. */
#pragma D option quiet
string s;
BEGIN { printf("%d %d %d %d\n", sizeof ("hi"), sizeof (""), sizeof ("é\t"), sizeof (s)); exit(0); }
