/* The base is a constant. */
BEGIN { @ = lquantize(1, pid, 9); }
