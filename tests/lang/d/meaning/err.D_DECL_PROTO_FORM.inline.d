/* Parameters of an inline have names. */
inline int f[int] = 1;
