/* A function that there is not cannot be called. */
BEGIN { nonesuch(1); }
