#!/usr/bin/env -S gilk-dtrace -s
/* Bytes that were read, by program, directory and file.
 *
 *     gilk dtrace --on lab -s filereads.d -c COMMAND
 */

#pragma D option quiet

fbt::vfs_read:entry
{
	self->entry = (uintptr_t)args[0]->f_path.dentry;
}

fbt::vfs_read:return
/self->entry && args[1] > 0/
{
	this->name = (struct dentry *)self->entry;
	@[execname, stringof(this->name->d_parent->d_name.name), stringof(this->name->d_name.name)] = sum(args[1]);
}

fbt::vfs_read:return
{
	self->entry = 0;
}

END
{
	trunc(@, 20);
	printa("%-16s %20s/%-30s %@10d\n", @);
}
