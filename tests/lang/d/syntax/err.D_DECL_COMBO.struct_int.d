/* A variable has one type. */
struct a int x;
