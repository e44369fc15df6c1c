/* A variable has one type. */
int char x;
