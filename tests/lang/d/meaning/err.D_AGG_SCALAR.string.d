/* The sum of strings is not defined. */
BEGIN { @ = sum("a"); }
