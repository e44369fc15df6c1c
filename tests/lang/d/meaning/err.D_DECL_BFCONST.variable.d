/* The size of a bit-field is a constant. */
struct s { int a : pid; };
