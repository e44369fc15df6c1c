/* Two structs that are not the same are not assigned to each other. */
struct a { int x; }; struct b { int x; }; struct a a; struct b b; BEGIN { a = b; }
