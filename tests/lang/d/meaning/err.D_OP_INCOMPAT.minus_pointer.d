/* A pointer is not subtracted from a number. */
BEGIN { trace(1 - (int *)4); }
