/* tracemem() shows bytes, no more than the third argument says. */
BEGIN { this->p = (char *)alloca(20); tracemem(this->p, 18); tracemem(this->p, 4, 2); tracemem(this->p, 4, 9);
	tracemem(this->p, 3, 0); tracemem(this->p, 3, -1); exit(0); }
