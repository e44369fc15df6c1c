/* BEGIN gives nothing. */
BEGIN { trace(args[0]); }
