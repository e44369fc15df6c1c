#!/usr/bin/env -S gilk-dtrace -s
/* What is written, by file descriptor: how often, how much, and in which portions.
 *
 *     writes.d -p PID
 *
 * After section 6 of the paper.
 */

#pragma D option quiet

syscall::write:entry
{
	self->fd = (int)arg0;
}

syscall::write:return
/errno == 0/
{
	@sizes[self->fd] = quantize(arg1);
	@count[self->fd] = count();
	@bytes[self->fd] = sum(arg1);
}

END
{
	printf("%6s %12s %14s\n", "FD", "WRITES", "BYTES");
	printa("%6d %@12d %@14d\n", @count, @bytes);
	printa(@sizes);
}
