/* And an integer. */
BEGIN { tracemem(arg0, "4"); }
