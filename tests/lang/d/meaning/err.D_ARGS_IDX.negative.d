/* And none before the first. */
BEGIN { trace(args[-1]); }
