/* What is called has a name. */
BEGIN { self->f(1); }
