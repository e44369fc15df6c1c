/* normalize() too. */
BEGIN { normalize(1, 2); }
