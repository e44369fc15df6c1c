/* The bits of a pointer are not turned over. */
BEGIN { trace(~(int *)4); }
