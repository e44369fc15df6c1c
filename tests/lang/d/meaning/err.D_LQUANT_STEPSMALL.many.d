/* There are not too many steps. */
BEGIN { @ = lquantize(1, 0, 1000000); }
