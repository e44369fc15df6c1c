/* The limit is an integer. */
BEGIN { @ = lquantize(1, 0, "9"); }
