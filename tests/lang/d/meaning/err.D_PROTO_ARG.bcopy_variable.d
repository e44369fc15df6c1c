/* A variable is no memory of alloca(), and holds its own. */
struct s { int a; } x; BEGIN { bcopy("a", &x.a, 1); }
