/* An inline is not said twice. */
inline int X = 1; inline int X = 2;
