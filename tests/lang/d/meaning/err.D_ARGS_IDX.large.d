/* args[] has ten elements. */
BEGIN { trace(args[10]); }
