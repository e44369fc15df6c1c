/* What the struct does not have, no translator gives. */
struct o { int x; }; translator struct o < int n > { x = n; }; BEGIN { trace(xlate <struct o> (1).z); }
