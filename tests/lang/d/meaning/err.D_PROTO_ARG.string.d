/* The length of a number is not defined. */
BEGIN { trace(strlen(1)); }
