/* A limit beyond 32 bits. */
BEGIN { @ = lquantize(1, 0, 5000000000, 100); }
