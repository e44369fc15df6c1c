/* A thread-local variable is kept for its thread; storing 0 lets go of it. */
#pragma D option quiet
self int a; self string name; self uint64_t b;
BEGIN { printf("%d %d %d\n", self->a, self->name == NULL, self->b); self->a = -7; self->name = "me"; self->b = 1 << 40UL; }
BEGIN { printf("%d [%s]\n", self->a, self->name); self->a = 0; self->name = NULL; }
BEGIN { printf("%d %d\n", self->a, self->name == NULL); exit(0); }
