/* What is at no address cannot be read, and what is not alloca()'s not be written. */
#pragma D option quiet
BEGIN { trace(*(int *)16); }
BEGIN { trace(copyinstr(16)); }
BEGIN { this->p = (char **)alloca(8); *this->p = (char *)16; bcopy((char *)alloca(4), *this->p, 4); }
BEGIN { this->size = 1 << 30; alloca(this->size); }
BEGIN { x = *(struct { int a; } *)32; }
BEGIN { printf("on\n"); exit(0); }
