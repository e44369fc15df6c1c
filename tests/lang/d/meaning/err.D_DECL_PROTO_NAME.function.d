/* A void parameter is none. */
int f(void a);
