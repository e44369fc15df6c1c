/* An inline is of the type that it was declared with. */
inline string X = 5;
