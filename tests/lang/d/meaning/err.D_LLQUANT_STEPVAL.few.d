/* Steps that do not divide the factor. */
BEGIN { @ = llquantize(1, 10, 0, 3, 4); }
