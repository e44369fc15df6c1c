/* A string is no number. */
struct o { int x; }; translator struct o < int n > { x = "one"; };
