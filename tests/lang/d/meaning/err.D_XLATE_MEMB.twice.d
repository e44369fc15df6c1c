/* A member is said once. */
struct o { int x; }; translator struct o < int n > { x = n; x = 2; };
