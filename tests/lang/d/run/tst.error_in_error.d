/* A fault of a clause of ERROR is counted, and fires nothing: the next clause ends the program. */
#pragma D option quiet
BEGIN { trace(1 / arg0); }
ERROR { printf("fault %d\n", arg4); trace(1 / arg0); }
ERROR { exit(0); }
