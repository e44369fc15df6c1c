/* The room for names of frames is a constant, */
BEGIN { ustack(1, pid); }
