#!/usr/bin/env -S gilk-dtrace -s
/* How long processes live, by program, from when they begin to when their last thread ends.
 *
 *     gilk dtrace --on lab -s shortlived.d -c COMMAND
 */

#pragma D option quiet

proc:::start
{
	began[pid] = timestamp;
}

proc:::exit
/began[pid]/
{
	@lives[execname] = quantize((timestamp - began[pid]) / 1000);
	@short[execname, curpsinfo->pr_ppid] = count();
	began[pid] = 0;
}

END
{
	printf("microseconds\n");
	printa("%s %@d\n", @lives);
	printf("%-16s %8s %8s\n", "PROGRAM", "PARENT", "COUNT");
	printa("%-16s %8d %@8d\n", @short);
}
