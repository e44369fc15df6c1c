#!/usr/bin/env -S gilk-dtrace -s
/* Calls of file systems as they come: the program, the function, the bytes, and the file.
 *
 *     gilk dtrace --on lab -s vfssnoop.d -c COMMAND
 */

#pragma D option quiet

BEGIN
{
	printf("%6s %-16s %-10s %8s %s\n", "PID", "PROGRAM", "CALL", "BYTES", "FILE");
}

fbt::vfs_read:entry,
fbt::vfs_write:entry
{
	self->file = (struct file *)arg0;
}

fbt::vfs_read:return,
fbt::vfs_write:return
/self->file/
{
	printf("%6d %-16s %-10s %8d %s\n", pid, execname, probefunc, (int64_t)arg1,
	    stringof(self->file->f_path.dentry->d_name.name));
	self->file = 0;
}
