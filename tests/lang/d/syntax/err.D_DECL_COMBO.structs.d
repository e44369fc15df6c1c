/* A variable has one type. */
struct a struct b x;
