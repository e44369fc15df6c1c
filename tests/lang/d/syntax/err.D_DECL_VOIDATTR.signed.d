/* void has no sign. */
unsigned void *x;
