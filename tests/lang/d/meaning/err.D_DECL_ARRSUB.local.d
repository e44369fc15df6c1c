/* Clause-local variables lie on a stack, and are small. */
this char a[100000];
