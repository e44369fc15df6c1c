/* A struct has the members that it was declared with. */
struct s { int a; }; struct s x; BEGIN { trace(x.b); }
