/* Nor has one that is not known. */
BEGIN { trace(offsetof(struct nonesuch, a)); }
