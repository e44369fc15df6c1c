/* A number leads nowhere. */
BEGIN { trace(*5); }
