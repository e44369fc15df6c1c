/* An inline has no storage. */
inline self int x = 1;
