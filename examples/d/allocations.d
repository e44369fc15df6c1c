#!/usr/bin/env -S gilk-dtrace -s
/* How much memory is taken, and how much of that is given back; and what sizes are asked for.
 *
 *     allocations.d -p PID
 */

#pragma D option quiet

pid$target:libc.so.6:malloc:entry
{
	self->size = arg0;
	@sizes = quantize(arg0);
}

pid$target:libc.so.6:malloc:return
/self->size && arg1/
{
	kept[arg1] = self->size;
	@taken = sum(self->size);
	self->size = 0;
}

pid$target:libc.so.6:free:entry
/kept[arg0]/
{
	@given = sum(kept[arg0]);
	kept[arg0] = 0;
}

END
{
	printa("bytes taken:      %@12d\n", @taken);
	printa("bytes given back: %@12d\n", @given);
	printf("asked for:\n");
	printa(@sizes);
}
