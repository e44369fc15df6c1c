#!/usr/bin/env -S gilk-dtrace -s
/* Calls that one processor makes on another, by program and by the code that makes them.
 *
 *     gilk dtrace --on lab -s xcalls.d -c COMMAND
 */

#pragma D option quiet

sysinfo:::xcalls
{
	@by[execname] = sum(arg0);
	@from[stack(8)] = sum(arg0);
}

END
{
	printf("%-16s %8s\n", "PROGRAM", "COUNT");
	printa("%-16s %@8d\n", @by);
	trunc(@from, 3);
	printa(@from);
}
