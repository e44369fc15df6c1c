/* NULL and 0 make a string variable empty again; an element or a thread's variable is deleted. */
#pragma D option quiet
BEGIN { x = "a"; self->y = "b"; z[1] = "c"; this->w = "d"; }
BEGIN { x = NULL; self->y = 0; z[1] = NULL; this->w = strchr("d", 'e'); printf("[%s%s%s%s]\n", x, self->y, z[1], this->w); exit(0); }
