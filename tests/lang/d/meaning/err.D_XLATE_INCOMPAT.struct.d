/* A member has the type that the struct says. */
struct o { int x; struct { int z; } y; }; translator struct o < int n > { y = n; };
