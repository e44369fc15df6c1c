/* translators, */
struct s { int a; }; translator struct s < int x > { a = x; };
