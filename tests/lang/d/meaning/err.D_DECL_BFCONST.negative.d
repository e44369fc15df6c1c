/* No negative number of bits. */
struct s { int a : -1; };
