#!/usr/bin/env -S gilk-dtrace -s
/* Time that programs spend in each system call, its waits included, and how often they make it.
 *
 *     gilk dtrace --on lab -s procsystime.d -c COMMAND
 */

#pragma D option quiet

syscall:::entry
{
	self->began = timestamp;
}

syscall:::return
/self->began/
{
	@spent[execname, probefunc] = sum(timestamp - self->began);
	@calls[execname, probefunc] = count();
	self->began = 0;
}

END
{
	normalize(@spent, 1000);
	printf("%-16s %-20s %12s %8s\n", "PROGRAM", "CALL", "MICROSECONDS", "COUNT");
	printa("%-16s %-20s %@12d %@8d\n", @spent, @calls);
}
