/* An associative array has no size; its elements do. */
int x[int]; BEGIN { trace(sizeof (x)); }
