/* Statements are separated by semicolons. */
BEGIN { trace(1) trace(2) }
