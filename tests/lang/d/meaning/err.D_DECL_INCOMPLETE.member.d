/* So has that of a member. */
struct s { struct s inner; };
