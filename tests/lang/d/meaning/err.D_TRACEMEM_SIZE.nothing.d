/* And a positive one. */
BEGIN { tracemem(arg0, 0); }
