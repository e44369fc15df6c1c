/* An array has a size or keys. */
int x[];
