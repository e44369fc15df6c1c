/* Types have C's sizes; a string has strsize bytes. */
#pragma D option quiet
#pragma D option strsize=100
int n;
BEGIN { printf("%d %d %d %d %d\n", sizeof (char), sizeof (short), sizeof (int), sizeof (long), sizeof (void *)); }
BEGIN { x = "a"; printf("%d %d %d %d\n", sizeof (string), sizeof (x), sizeof (int[5]), sizeof (size_t)); }
BEGIN { printf("%d %d %d\n", sizeof (n++), sizeof (pid), sizeof (timestamp)); printf("%d\n", n); exit(0); }
