/* An inline has as many keys as parameters. */
inline int f[int a] = a; BEGIN { trace(f[1, 2]); }
