/* speculate() alone speculates the default action. */
BEGIN { self->s = speculation(); }
BEGIN { speculate(self->s); }
BEGIN { if (self->s) { speculate(self->s); } else { trace(1); } }
BEGIN { speculate(self->s); self->n = 3; }
BEGIN { commit(self->s); }
BEGIN { exit(self->n); }
