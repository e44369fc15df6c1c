#!/usr/bin/env -S gilk-dtrace -s
/* How long programs run on a processor at a time.
 *
 *     gilk dtrace --on lab -s cpudists.d -c COMMAND
 */

#pragma D option quiet

sched:::on-cpu
{
	self->since = timestamp;
}

sched:::off-cpu
/self->since/
{
	@[execname] = quantize(timestamp - self->since);
	self->since = 0;
}

END
{
	printa("%s, nanoseconds %@d\n", @);
}
