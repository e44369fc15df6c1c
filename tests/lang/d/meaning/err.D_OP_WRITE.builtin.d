/* The process number is not for the program to say. */
BEGIN { pid = 1; }
