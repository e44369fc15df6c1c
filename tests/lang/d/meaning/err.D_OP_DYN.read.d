/* An associative array has no value as a whole. */
BEGIN { a[1] = 1; trace(a); }
