/* A constant is nowhere. */
BEGIN { trace(&1); }
