/* trace() takes one argument. */
BEGIN { trace(); }
