/* The type of args[x] would depend on x. */
BEGIN { x = 1; trace(args[x]); }
