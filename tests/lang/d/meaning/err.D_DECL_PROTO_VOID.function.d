/* A void parameter is the only one. */
int f(int, void);
