/* A name is of one parameter. */
inline int f[int a, int a] = a;
