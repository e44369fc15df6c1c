/* What tracemem() shows is at an address. */
BEGIN { tracemem("a", 4); }
