/* Nothing has no name. */
inline int f[void x] = 1;
