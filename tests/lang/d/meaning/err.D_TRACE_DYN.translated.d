/* Only members of a translation have values. */
struct o { int x; }; translator struct o < int n > { x = n; }; BEGIN { trace(xlate <struct o> (1)); }
