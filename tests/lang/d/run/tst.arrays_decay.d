/* An array is where it begins, wherever a pointer is wanted; beside a string, characters are a text. */
#pragma D option quiet
int primes[4];
int *first;
char word[8];
char *start;
BEGIN { primes[0] = 2; primes[1] = 3; primes[3] = 7; first = primes; printf("%d %d %d\n", first[0], first[3], *primes); }
BEGIN { printf("%d %d %d\n", *(primes + 1), primes == first, &primes[3] - primes); }
BEGIN { word[0] = 'h'; word[1] = 'i'; start = word; printf("%s %d %s\n", stringof(start), word == "hi", word); exit(0); }
