#!/usr/bin/env -S gilk-dtrace -s
/* Where a program's threads wait in the kernel, and for how long in all.
 *
 *     gilk dtrace --on lab -s offcpu.d -c COMMAND PROGRAM
 */

#pragma D option quiet

sched:::off-cpu
/execname == $$1/
{
	self->left = timestamp;
}

sched:::on-cpu
/self->left/
{
	@[stack(8)] = sum((timestamp - self->left) / 1000);
	self->left = 0;
}

END
{
	trunc(@, 10);
	printa("%k%@d us\n\n", @);
}
