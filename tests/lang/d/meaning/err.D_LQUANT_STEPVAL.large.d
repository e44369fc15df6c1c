/* A step beyond 16 bits. */
BEGIN { @ = lquantize(1, 0, 200000, 70000); }
