/* A factor beyond 16 bits. */
BEGIN { @ = llquantize(1, 70000, 0, 1, 70000); }
