/* and inlines with keys. */
inline int x[int a] = 1;
