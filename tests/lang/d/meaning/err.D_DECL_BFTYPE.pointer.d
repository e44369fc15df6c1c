/* A bit-field is an integer. */
struct s { char *a : 3; };
