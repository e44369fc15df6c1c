/* Steps that do not divide the square of the factor. */
BEGIN { @ = llquantize(1, 10, 0, 3, 30); }
