#!/usr/bin/env -S gilk-dtrace -s
/* How long each read takes.
 *
 *     reads.d -p PID
 *
 * After Figure 1 of the paper.
 */

#pragma D option quiet

syscall::read:entry
{
	self->began = timestamp;
}

syscall::read:return
/self->began/
{
	printf("%d/%d spent %d nsecs in read\n", pid, tid, timestamp - self->began);
	@["all reads, nsecs"] = quantize(timestamp - self->began);
	self->began = 0;
}
