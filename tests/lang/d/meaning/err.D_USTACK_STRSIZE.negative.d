/* and not negative. */
BEGIN { ustack(1, -1); }
