/* Nor is a string a weight. */
BEGIN { @ = quantize(1, "a"); }
