/* A translation cannot be kept. */
struct o { int x; }; translator struct o < int n > { x = n; }; BEGIN { p = xlate <struct o *> (1); }
