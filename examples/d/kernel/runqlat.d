#!/usr/bin/env -S gilk-dtrace -s
/* How long tasks that can run wait for a processor, by processor.
 *
 *     gilk dtrace --on lab -s runqlat.d -c COMMAND
 */

#pragma D option quiet

sched:::enqueue
{
	queued[args[0]->pr_addr] = timestamp;
}

sched:::on-cpu
/queued[(uintptr_t)curthread]/
{
	@[cpu] = quantize(timestamp - queued[(uintptr_t)curthread]);
	queued[(uintptr_t)curthread] = 0;
}

END
{
	printa("processor %d, nanoseconds %@d\n", @);
}
