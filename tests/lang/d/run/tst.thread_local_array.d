/* Thread-local associative arrays are apart from global ones of the same name. */
#pragma D option quiet
BEGIN { a["x"] = 1; self->a["x"] = 2; self->a["y"] = 3; a["x"]++; }
BEGIN { printf("%d %d %d %d\n", a["x"], a["y"], self->a["x"], self->a["y"]); exit(0); }
