/* What has no value is not an operand. */
BEGIN { trace((void)1 + 1); }
