/* tracemem() takes a constant size. */
BEGIN { tracemem(arg0, pid); }
