#!/usr/bin/env -S gilk-dtrace -s
/* Signals: from whom, to whom, and those that nobody minds.
 *
 *     gilk dtrace --on lab -s kill.d -c COMMAND
 */

#pragma D option quiet

proc:::signal-send,
proc:::signal-discard
{
	@[probename, execname, args[1]->pr_fname, args[2]] = count();
}

END
{
	printf("%-16s %-16s %-16s %6s %8s\n", "WHAT", "FROM", "TO", "SIGNAL", "COUNT");
	printa("%-16s %-16s %-16s %6d %@8d\n", @);
}
