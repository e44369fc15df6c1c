/* No number of 32 bits counts its elements. */
char many[4294967296];
BEGIN { exit(0); }
