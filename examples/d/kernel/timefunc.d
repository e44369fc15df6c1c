#!/usr/bin/env -S gilk-dtrace -s
/* How long calls of one function of the kernel take, their waits included, and how long they run.
 *
 *     gilk dtrace --on lab -s timefunc.d -c COMMAND FUNCTION
 */

#pragma D option quiet

fbt::$1:entry
{
	self->began = timestamp;
	self->ran = vtimestamp;
}

fbt::$1:return
/self->began/
{
	@took = quantize(timestamp - self->began);
	@ran = quantize(vtimestamp - self->ran);
	self->began = 0;
}

END
{
	printa("took, nanoseconds %@d\n", @took);
	printa("ran, nanoseconds %@d\n", @ran);
}
