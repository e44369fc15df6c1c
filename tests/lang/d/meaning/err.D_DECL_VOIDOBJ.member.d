/* A function is no member. */
struct s { int f(); };
