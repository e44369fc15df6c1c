#!/usr/bin/env -S gilk-dtrace -s
/* Switches of tasks in each second: how many, and how long they take from the one to the next.
 *
 *     gilk dtrace --on lab -s cswstat.d -c COMMAND
 */

#pragma D option quiet

BEGIN
{
	printf("%-20s %8s %12s %10s\n", "TIME", "SWITCHES", "NSECS", "AVERAGE");
}

sched:::off-cpu
{
	left[cpu] = timestamp;
}

sched:::on-cpu
/left[cpu]/
{
	switches++;
	spent += timestamp - left[cpu];
	left[cpu] = 0;
}

tick-1sec,
END
{
	printf("%Y %8d %12d %10d\n", walltimestamp, switches, spent, switches ? spent / switches : 0);
	switches = 0;
	spent = 0;
}
