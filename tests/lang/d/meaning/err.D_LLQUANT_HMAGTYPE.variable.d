/* So is the higher one. */
BEGIN { @ = llquantize(1, 10, 0, pid, 10); }
