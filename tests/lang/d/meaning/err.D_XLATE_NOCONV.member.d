/* What the translator does not say has no value. */
struct o { int x; int y; }; translator struct o < int n > { x = n; }; BEGIN { trace(xlate <struct o> (1).y); }
