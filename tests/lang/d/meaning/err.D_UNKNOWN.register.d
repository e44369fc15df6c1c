/* The last register is number 25. */
BEGIN { trace(uregs[25]); trace(uregs[26]); }
