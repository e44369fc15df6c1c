/* An associative array is no parameter. */
int f(int a[int]);
