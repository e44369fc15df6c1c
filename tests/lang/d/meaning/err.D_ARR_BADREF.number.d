/* A number has no elements. */
BEGIN { x = 1; trace(x[1]); }
