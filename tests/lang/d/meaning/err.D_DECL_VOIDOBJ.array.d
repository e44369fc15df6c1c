/* Nor arrays of them. */
void x[3];
