/* END fires once, when all is over. */
#pragma D option quiet
int x;
END { printf("%s %d\n", probename, x); }
BEGIN { x = 6; exit(0); }
