/* And not larger than its type. */
struct s { int a : 33; };
