/* A type must be declared before it is used. */
nonesuch_t x;
