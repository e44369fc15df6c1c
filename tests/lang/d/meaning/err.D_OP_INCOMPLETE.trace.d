/* Or to trace. */
BEGIN { trace(*(struct nonesuch *)4); }
