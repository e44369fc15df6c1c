/* A string is not made a number. */
BEGIN { trace((int)"1"); }
