/* A pointer is not shifted. */
BEGIN { trace((int *)4 << 1); }
