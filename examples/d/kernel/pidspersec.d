#!/usr/bin/env -S gilk-dtrace -s
/* Processes that begin in each second.
 *
 *     gilk dtrace --on lab -s pidspersec.d -c COMMAND
 */

#pragma D option quiet

BEGIN
{
	printf("%-20s %8s\n", "TIME", "BEGUN");
}

proc:::start
{
	begun++;
}

tick-1sec,
END
{
	printf("%Y %8d\n", walltimestamp, begun);
	begun = 0;
}
