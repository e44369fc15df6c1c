/* A string is no index. */
BEGIN { trace(args["0"]); }
