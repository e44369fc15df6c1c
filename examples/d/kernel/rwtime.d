#!/usr/bin/env -S gilk-dtrace -s
/* How long reads and writes take, by program, their waits included.
 *
 *     gilk dtrace --on lab -s rwtime.d -c COMMAND
 */

#pragma D option quiet

syscall::read:entry,
syscall::write:entry
{
	self->began = timestamp;
}

syscall::read:return,
syscall::write:return
/self->began/
{
	@[execname, probefunc] = quantize(timestamp - self->began);
	self->began = 0;
}

END
{
	printa("%s, %s, nanoseconds %@d\n", @);
}
