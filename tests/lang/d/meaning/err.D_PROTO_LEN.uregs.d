/* A register has one number. */
BEGIN { trace(uregs[1, 2]); }
