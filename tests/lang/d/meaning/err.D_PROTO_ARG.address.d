/* A string is not an address. */
BEGIN { trace(copyinstr("a")); }
