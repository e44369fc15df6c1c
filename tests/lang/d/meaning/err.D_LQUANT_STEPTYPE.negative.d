/* A step goes upwards. */
BEGIN { @ = lquantize(1, 0, 9, -1); }
