/* A base beyond 32 bits. */
BEGIN { @ = lquantize(1, 5000000000, 5000000009); }
