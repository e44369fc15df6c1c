/* The bits of strings are not combined. */
BEGIN { trace("a" & 1); }
