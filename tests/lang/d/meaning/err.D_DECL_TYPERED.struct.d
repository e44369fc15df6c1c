/* A struct is declared once. */
struct s { int a; }; struct s { int b; };
