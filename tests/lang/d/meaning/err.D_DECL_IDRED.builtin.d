/* Nor can a variable have it. */
int strtok;
BEGIN { exit(0); }
