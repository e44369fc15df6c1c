/* The step is a constant. */
BEGIN { @ = lquantize(1, 0, 9, pid); }
