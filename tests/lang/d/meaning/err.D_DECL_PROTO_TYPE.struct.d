/* Nor is a struct. */
struct s { int a; }; int x[struct s];
