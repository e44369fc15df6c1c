/* args is an array. */
BEGIN { trace(args); }
