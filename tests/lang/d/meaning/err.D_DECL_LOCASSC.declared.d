/* Clause-local variables are not associative arrays. */
this int x[int];
