#!/usr/bin/env -S gilk-dtrace -s
/* Files that are opened, and why that failed.
 *
 *     opens.d -p PID
 */

#pragma D option quiet

BEGIN
{
	printf("%6s %-16s %4s %5s %s\n", "PID", "PROGRAM", "FD", "ERRNO", "PATH");
}

syscall::open:entry
{
	self->path = arg0;
}

syscall::openat:entry
{
	self->path = arg1;
}

syscall::open:return,
syscall::openat:return
/self->path/
{
	printf("%6d %-16s %4d %5d %s\n", pid, execname, errno ? -1 : (int)arg1, errno, copyinstr(self->path));
	self->path = 0;
}
