#!/usr/bin/env -S gilk-dtrace -s
/* Programs that are executed, and those that could not be, as they come.
 *
 *     gilk dtrace --on lab -s execsnoop.d -c COMMAND
 */

#pragma D option quiet

BEGIN
{
	printf("%5s %6s %6s %-16s %s\n", "UID", "PID", "PPID", "PROGRAM", "PATH");
}

proc:::exec
{
	self->path = args[0];
}

proc:::exec-success
/self->path != NULL/
{
	printf("%5d %6d %6d %-16s %s\n", uid, pid, ppid, execname, self->path);
	self->path = 0;
}

proc:::exec-failure
/self->path != NULL/
{
	printf("%5d %6d %6d %-16s %s: error %d\n", uid, pid, ppid, execname, self->path, args[0]);
	self->path = 0;
}
