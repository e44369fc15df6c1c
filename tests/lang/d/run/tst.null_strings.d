/* NULL and 0 stand for a string that is not there: to read it is a fault. To printf() NULL is a number. */
#pragma D option quiet
BEGIN { printf("%d %u %x\n", NULL, NULL, NULL); }
BEGIN { trace(strlen(0)); }
BEGIN { trace(index("text", NULL)); }
BEGIN { x = strtok("text", NULL); }
tick-5ms { exit(0); }
