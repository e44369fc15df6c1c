/* An array has a fixed number of keys. */
int x[int, ...];
