/* Nor can it aggregate. */
BEGIN { @ = nonesuch(1); }
