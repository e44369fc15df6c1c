/* A string is not a member: it has no size of its own. */
struct s { string a; };
