/* The distance of two pointers is not a pointer. */
BEGIN { p = (int *)8; p -= (int *)4; }
