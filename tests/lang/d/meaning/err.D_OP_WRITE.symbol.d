/* Nor are its symbols. */
BEGIN { `number = 1; }
