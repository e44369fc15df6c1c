/* A constant cannot be assigned to. */
BEGIN { 1 = 2; }
