#!/usr/bin/env -S gilk-dtrace -s
/* Who maps memory: the stacks of it, the most frequent last.
 *
 *     who_maps.d -p PID
 *
 * After section 9 of the paper.
 */

syscall::mmap:entry
{
	@[ustack()] = count();
}
