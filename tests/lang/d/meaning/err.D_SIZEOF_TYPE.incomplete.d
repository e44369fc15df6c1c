/* Nor has what is not declared. */
BEGIN { trace(sizeof (struct nonesuch)); }
