/* An action has no value to choose. */
BEGIN { x = pid ? trace(0) : trace(1); }
