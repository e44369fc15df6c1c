/* And not without bits. */
struct s { int a : 0; };
