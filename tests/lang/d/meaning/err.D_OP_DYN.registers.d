/* Nor have the registers, all at once. */
BEGIN { trace(uregs); }
