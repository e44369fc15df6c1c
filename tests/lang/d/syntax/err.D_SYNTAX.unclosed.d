/* Brackets must be closed. */
BEGIN { trace((1); }
