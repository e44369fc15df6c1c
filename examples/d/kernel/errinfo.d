#!/usr/bin/env -S gilk-dtrace -s
/* System calls that fail, by program and number of the error.
 *
 *     gilk dtrace --on lab -s errinfo.d -c COMMAND
 */

#pragma D option quiet

syscall:::return
/errno/
{
	@[execname, probefunc, errno] = count();
}

END
{
	printf("%-16s %-20s %5s %8s\n", "PROGRAM", "CALL", "ERRNO", "COUNT");
	printa("%-16s %-20s %5d %@8d\n", @);
}
