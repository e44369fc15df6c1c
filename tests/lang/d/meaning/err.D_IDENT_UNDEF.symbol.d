/* There has to be such a symbol. */
BEGIN { trace(lib`nothing); }
