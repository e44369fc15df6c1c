/* The status of exit() is an integer. */
BEGIN { exit("1"); }
