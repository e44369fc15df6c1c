/* What is committed appears where it was committed; what is discarded never does. */
#pragma D option quiet
BEGIN { self->a = speculation(); }
BEGIN { speculate(self->a); printf("kept %d\n", self->a); }
BEGIN { printf("first\n"); }
BEGIN { commit(self->a); }
BEGIN { self->b = speculation(); printf("%d\n", self->b); }
BEGIN { speculate(self->b); printf("lost\n"); }
BEGIN { discard(self->b); }
BEGIN { self->c = speculation(); commit(self->c); }
BEGIN { speculate(self->a); printf("too late\n"); }
BEGIN { printf("last\n"); exit(0); }
