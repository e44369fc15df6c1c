#!/usr/bin/env -S gilk-dtrace -s
/* Which files are mapped, by descriptor.
 *
 *     maps.d -p PID
 *
 * After section 9 of the paper.
 */

#pragma D option quiet

syscall::mmap:entry
{
	@[pid, (int)arg4] = count();
}

END
{
	printf("%9s %13s %16s\n", "PID", "FD", "COUNT");
	printa("%9d %13d %16@d\n", @);
}
