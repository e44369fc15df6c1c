/* An action is not a value. */
BEGIN { x = trace(1); }
