/* long at most twice. */
long long long x;
