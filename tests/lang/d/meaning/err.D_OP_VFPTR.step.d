/* How far would it go? */
void *p; BEGIN { p++; }
