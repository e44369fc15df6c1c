/* An inline sees its own parameters, not those of where it is used. */
int b; inline int g[int c] = c; inline int f[int a] = g[a] + c;
