/* A clause-local variable is not a global one. */
BEGIN { x = 1; trace(this->x); }
