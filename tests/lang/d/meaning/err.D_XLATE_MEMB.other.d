/* Its members are those of the struct. */
struct o { int x; }; translator struct o < int n > { y = n; };
