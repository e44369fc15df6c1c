#!/usr/bin/env -S gilk-dtrace -s
/* System calls of all processes, by program, and the errors among them.
 *
 *     gilk dtrace --on lab -s syscallbyproc.d -c COMMAND
 */

#pragma D option quiet

syscall:::entry
{
	@calls[execname, probefunc] = count();
}

syscall:::return
/errno/
{
	@errors[execname, probefunc, errno] = count();
}

END
{
	trunc(@calls, 30);
	printf("%-16s %-20s %8s\n", "PROGRAM", "CALL", "COUNT");
	printa("%-16s %-20s %@8d\n", @calls);
	printf("\n%-16s %-20s %5s %8s\n", "PROGRAM", "CALL", "ERRNO", "COUNT");
	printa("%-16s %-20s %5d %@8d\n", @errors);
}
