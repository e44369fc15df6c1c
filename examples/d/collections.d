#!/usr/bin/env -S gilk-dtrace -s
/* How long a Python program's collections of garbage take, and how much each finds, by generation.
 *
 *     collections.d -p PID
 */

#pragma D option quiet

python$target:::gc-start
{
	self->generation = arg0 + 1;
	self->began = timestamp;
}

python$target:::gc-done
/self->generation/
{
	@time[self->generation - 1] = quantize(timestamp - self->began);
	@found[self->generation - 1] = sum(arg0);
	self->generation = 0;
	self->began = 0;
}

END
{
	printf("nsecs, by generation:\n");
	printa(@time);
	printa("generation %d: %@d objects found\n", @found);
}
