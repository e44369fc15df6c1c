/* They are of their types. */
inline int f[int a] = a; BEGIN { trace(f["one"]); }
