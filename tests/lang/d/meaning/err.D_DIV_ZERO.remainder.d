/* A rest of nothing. */
BEGIN { trace(1 % 0); }
