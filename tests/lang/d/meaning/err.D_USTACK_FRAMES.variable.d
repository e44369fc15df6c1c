/* How many frames there are is a constant. */
BEGIN { ustack(pid); }
