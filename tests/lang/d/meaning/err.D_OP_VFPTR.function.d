/* Nor has a function a size, which a pointer could be moved by. */
int (*f)(int, char *); BEGIN { f++; }
