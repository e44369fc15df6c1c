/* ERROR fires for each fault: arg2 is the clause, from 0, arg4 the kind of fault, arg5 the address. */
#pragma D option quiet
ERROR { printf("ERROR %d %d %d %x\n", arg1, arg2, arg4, arg5); n++; }
BEGIN { x = *(int *)0x10; printf("not this\n"); }
BEGIN { y = 0; trace(1 / y); }
tick-5ms /n == 2/ { exit(0); }
