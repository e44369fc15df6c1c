#!/usr/bin/env -S gilk-dtrace -s
/* Pages that programs touch for the first time, and those that are copied for them as they write.
 *
 *     gilk dtrace --on lab -s faults.d -c COMMAND
 */

#pragma D option quiet

vminfo:::as_fault,
vminfo:::cow_fault
{
	@faults[execname, probename] = count();
}

END
{
	trunc(@faults, 30);
	printf("%-16s %-10s %8s\n", "PROGRAM", "KIND", "COUNT");
	printa("%-16s %-10s %@8d\n", @faults);
}
