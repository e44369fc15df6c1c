/* An associative array has one set of keys. */
int x[int]; int x[string];
