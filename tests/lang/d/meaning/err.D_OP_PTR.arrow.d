/* A struct itself is no pointer to one. */
struct s { int a; }; struct s x; BEGIN { trace(x->a); }
