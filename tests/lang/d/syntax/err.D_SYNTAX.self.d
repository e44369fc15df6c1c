/* self is no variable. */
BEGIN { self = 1; }
