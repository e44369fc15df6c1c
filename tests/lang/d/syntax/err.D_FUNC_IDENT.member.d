/* What is called has a name. */
BEGIN { x->y(1); }
