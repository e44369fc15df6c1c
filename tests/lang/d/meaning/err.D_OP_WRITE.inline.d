/* An inline is not a variable. */
inline int X = 1; BEGIN { X = 2; }
