/* Members have different names. */
struct s { int a; char a; };
