/* Pointers to different things have no distance. */
BEGIN { trace((int *)8 - (char *)4); }
