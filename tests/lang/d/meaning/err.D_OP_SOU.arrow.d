/* Nor has what a pointer to one leads to. */
BEGIN { trace(((int *)4)->a); }
