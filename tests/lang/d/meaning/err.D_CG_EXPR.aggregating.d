/* Nor is it a statement. */
BEGIN { count(); }
