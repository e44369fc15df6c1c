/* The number of steps is an integer. */
BEGIN { @ = llquantize(1, 10, 0, 3, "10"); }
