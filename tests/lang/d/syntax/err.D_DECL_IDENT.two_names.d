/* A declaration names one thing. */
int x y;
