/* A struct is not a string. */
struct s { int a; }; struct s x; BEGIN { trace(stringof(x)); }
