/* There is one translator from a type to another. */
struct o { int x; }; translator struct o < int n > { x = n; }; translator struct o < int m > { x = m; };
