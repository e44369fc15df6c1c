/* A register is known beforehand. */
BEGIN { i = 1; trace(uregs[i]); }
