/* A pointer is not multiplied. */
BEGIN { trace((int *)4 * 2); }
