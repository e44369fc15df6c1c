BEGIN { printf("%d %d\n", `jiffies_64, vmlinux`max_pfn); trace(*(int *)&`system_state); }
fbt:ext4:ext4_file_read_iter:entry
{
	this->file = ((struct kiocb *)arg0)->ki_filp;
	@[stringof(((struct file *)this->file)->f_path.dentry->d_name.name)] = count();
	printf("%s", (string)args[0]->ki_filp->f_path.dentry->d_iname);
}
