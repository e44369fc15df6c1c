/* A number is not made a struct. */
struct s { int a; }; BEGIN { trace((struct s)1); }
