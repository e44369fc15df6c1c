/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The probes of fsinfo: see docs/d/providers.md. providers/kernel/fsinfo.py has their places. */
#pragma D depends_on library files.d

/* Without a mount, the path is that in the file system. A name that is about to be created has no inode yet. */
translator fileinfo_t < struct dentry *D > {
	fi_name = stringof(D->d_name.name);
	fi_dirname = pathof(34, D);
	fi_pathname = pathof(2, D);
	fi_fs = stringof(D->d_sb->s_type->name);
};

provider fsinfo {
	probe read(struct file *F, int N) : (fileinfo_t *F, int N);
	probe write(struct file *F, int N) : (fileinfo_t *F, int N);
	probe open(struct file *F, int N) : (fileinfo_t *F, int N);
	probe close(struct file *F, int N) : (fileinfo_t *F, int N);
	probe fsync(struct file *F, int N) : (fileinfo_t *F, int N);
	probe readdir(struct file *F, int N) : (fileinfo_t *F, int N);
	probe mkdir(struct dentry *F, int N) : (fileinfo_t *F, int N);
	probe rmdir(struct dentry *F, int N) : (fileinfo_t *F, int N);
	probe unlink(struct dentry *F, int N) : (fileinfo_t *F, int N);
	probe symlink(struct dentry *F, int N) : (fileinfo_t *F, int N);
	probe link(struct dentry *F, int N) : (fileinfo_t *F, int N);
	probe rename(struct dentry *F, int N) : (fileinfo_t *F, int N);
};
