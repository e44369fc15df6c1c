/* A backquote without the name of a symbol. */
BEGIN { trace(sizeof (`)); }
