/* A struct is not a key. */
struct s { int a; }; struct s x; BEGIN { a[x] = 1; }
