/* A translator is of one type. */
struct o { int x; }; translator struct o < int n > { x = n; }; BEGIN { trace(xlate <struct o> (execname).x); }
