/* A variable that nothing has been assigned to before is not known. */
BEGIN { trace(x); }
