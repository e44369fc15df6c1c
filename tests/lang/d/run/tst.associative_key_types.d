/* Keys are converted to the type of the first ones. */
#pragma D option quiet
BEGIN { a[(char)1] = 5; this->long = 257; printf("%d %d\n", a[1], a[this->long]); }
int b[int64_t];
BEGIN { b[1 << 31] = 3; printf("%d %d\n", b[-2147483648], b[2147483648]); exit(0); }
