/* A limit that is not constant. */
BEGIN { @ = lquantize(1, 0, pid); }
