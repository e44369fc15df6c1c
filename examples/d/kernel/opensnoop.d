#!/usr/bin/env -S gilk-dtrace -s
/* Files that any process opens, by the kernel's own copy of the name: also where the process has not touched it yet.
 *
 *     gilk dtrace --on lab -s opensnoop.d -c COMMAND
 */

#pragma D option quiet

BEGIN
{
	printf("%6s %-16s %5s %s\n", "PID", "PROGRAM", "ERRNO", "PATH");
}

fbt::do_filp_open:entry
{
	self->path = stringof(args[1]->name);
}

fbt::do_filp_open:return
/self->path != NULL/
{
	this->error = arg1 >= -4095 && arg1 < 0 ? -arg1 : 0;
	printf("%6d %-16s %5d %s\n", pid, execname, this->error, self->path);
	self->path = 0;
}
