/* The base is below the limit. */
BEGIN { @ = lquantize(1, 9, 9); }
