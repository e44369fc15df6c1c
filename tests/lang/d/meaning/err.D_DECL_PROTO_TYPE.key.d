/* Nothing is not a key. */
int x[int, void];
