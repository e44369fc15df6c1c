/* Characters that fill what alloca() gave end there, as a string. */
#pragma D option quiet
BEGIN { this->p = (char *)alloca(8); bcopy("12345678", this->p, 8); trace(stringof(this->p)); exit(0); }
