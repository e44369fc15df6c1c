/* There are no variables without a type. */
void x;
