/* A destructive action cannot be taken back, as what follows speculate() may be. */
BEGIN { self->s = speculation(); speculate(self->s); raise(2); }
