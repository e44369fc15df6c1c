#!/usr/bin/env -S gilk-dtrace -s
/* Calls of the functions of one module of the kernel.
 *
 *     gilk dtrace --on lab -s modcalls.d -c COMMAND MODULE
 */

#pragma D option quiet

fbt:$1::entry
{
	@[probefunc] = count();
}

END
{
	trunc(@, 30);
	printf("%-40s %10s\n", "FUNCTION", "CALLS");
	printa("%-40s %@10d\n", @);
}
