/* A key has no storage. */
int x[static int];
