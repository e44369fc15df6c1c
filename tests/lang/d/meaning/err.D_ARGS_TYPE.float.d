/* What is not in an integer register cannot be had. */
pid1:::entry { trace(args[1]); }
