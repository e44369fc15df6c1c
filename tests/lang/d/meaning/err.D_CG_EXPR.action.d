/* An action has no value. */
BEGIN { trace((exit(0), 2)); }
