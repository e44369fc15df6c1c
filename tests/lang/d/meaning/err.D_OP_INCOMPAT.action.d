/* Nor is it an operand. */
BEGIN { trace(exit(0) + 1); }
