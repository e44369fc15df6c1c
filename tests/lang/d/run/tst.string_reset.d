/* NULL and 0 are no strings, and what they are assigned to is none then; an element or a thread's variable is deleted. */
#pragma D option quiet
BEGIN { x = "a"; self->y = "b"; z[1] = "c"; this->w = "d"; }
BEGIN { x = NULL; self->y = 0; z[1] = NULL; this->w = strchr("d", 'e'); printf("%d%d%d%d\n", x == NULL, self->y == NULL, z[1] == NULL, this->w == NULL); x = ""; this->w = x; }
BEGIN { printf("[%s%s]\n", x, this->w); exit(0); }
