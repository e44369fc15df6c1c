/* Nor in if. */
BEGIN { if (probename) trace(1); }
