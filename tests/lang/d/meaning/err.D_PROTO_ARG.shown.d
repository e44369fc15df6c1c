/* How much of it is shown is an integer. */
BEGIN { tracemem(arg0, 4, "4"); }
