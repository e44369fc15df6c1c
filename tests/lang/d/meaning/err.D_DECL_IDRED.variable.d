/* A variable has one type. */
int x; string x;
