/* There are as many as the function takes. */
pid1:::entry { trace(args[3]); }
