/* Nor can a string decide. */
BEGIN { x = probename ? 1 : 2; }
