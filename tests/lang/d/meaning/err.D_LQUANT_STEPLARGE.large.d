/* A step is not larger than the range. */
BEGIN { @ = lquantize(1, 0, 9, 10); }
