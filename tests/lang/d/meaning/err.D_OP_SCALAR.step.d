/* A string has no successor. */
BEGIN { x = "a"; x++; }
