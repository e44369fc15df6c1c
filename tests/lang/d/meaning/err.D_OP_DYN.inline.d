/* An inline with parameters wants them. */
inline int f[int a] = a; BEGIN { trace(f); }
