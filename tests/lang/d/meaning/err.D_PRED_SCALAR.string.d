/* A predicate is true or false, which a string is not. */
BEGIN /probename/ { trace(1); }
