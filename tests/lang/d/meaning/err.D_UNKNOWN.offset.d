/* What is not a member has no offset. */
struct s { int a; }; BEGIN { trace(offsetof(struct s, b)); }
