/* A string is not assigned to a variable that was an integer. */
BEGIN { x = 1; x = "a"; }
