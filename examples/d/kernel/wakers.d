#!/usr/bin/env -S gilk-dtrace -s
/* Who wakes whom, and from where in the kernel.
 *
 *     gilk dtrace --on lab -s wakers.d -c COMMAND
 */

#pragma D option quiet

sched:::wakeup
{
	@pairs[execname, args[1]->pr_fname] = count();
	@places[args[1]->pr_fname, stack(4)] = count();
}

END
{
	trunc(@places, 5);
	printf("%-16s %-16s %8s\n", "WAKER", "WOKEN", "COUNT");
	printa("%-16s %-16s %@8d\n", @pairs);
	printa("%s %k%@d\n", @places);
}
