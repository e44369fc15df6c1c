#!/usr/bin/env -S gilk-dtrace -s
/* System calls that failed, by reason.
 *
 *     errors.d -p PID
 */

#pragma D option quiet

syscall:::return
/errno != 0/
{
	@[execname, probefunc, errno] = count();
}

END
{
	printf("%-16s %-20s %6s %10s\n", "PROGRAM", "SYSCALL", "ERRNO", "COUNT");
	printa("%-16s %-20s %6d %@10d\n", @);
}
