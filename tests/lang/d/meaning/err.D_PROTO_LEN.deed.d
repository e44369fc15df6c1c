/* speculate() needs to know which speculation. */
BEGIN { speculate(); }
