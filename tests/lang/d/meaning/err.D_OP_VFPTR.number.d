/* A pointer is not subtracted from a number. */
int n; BEGIN { n -= alloca(8); }
