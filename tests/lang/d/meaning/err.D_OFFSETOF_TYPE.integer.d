/* Nor has an integer members. */
BEGIN { trace(offsetof(int, a)); }
