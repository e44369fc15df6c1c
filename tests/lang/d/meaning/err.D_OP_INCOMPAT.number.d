/* Nor a number to a string. */
BEGIN { x = "a"; x = 1; }
