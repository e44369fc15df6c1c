/* Nor are destructive actions. */
BEGIN { speculate(1); system("true"); }
