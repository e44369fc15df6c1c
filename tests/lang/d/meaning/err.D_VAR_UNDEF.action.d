/* An action has no value that could give a variable its type. */
BEGIN { x -= trace(1); }
