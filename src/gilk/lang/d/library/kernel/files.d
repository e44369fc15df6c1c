/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * DTrace's types of descriptors, for the task that runs: see docs/d/variables.md. pathof() makes the paths. Its first
 * argument is 0 for a struct path, 1 for the place of a mount, 2 for a dentry in its file system; with 16 added it gives
 * the last component, with 32 added the part before that.
 */
#pragma D depends_on library file_types.d

inline struct file *fdtable_file[struct fdtable *T, int N] =
	N < 0 || N >= T->max_fds ? (struct file *)NULL : T->fd[N];
inline struct file *files_file[struct files_struct *S, int N] =
	S == NULL ? (struct file *)NULL : fdtable_file[S->fdt, N];

translator fileinfo_t < struct file *F > {
	fi_name = F == NULL ? "<none>" : pathof(16, &F->f_path);
	fi_dirname = F == NULL ? "<none>" : pathof(32, &F->f_path);
	fi_pathname = F == NULL ? "<none>" : pathof(0, &F->f_path);
	fi_offset = F == NULL ? 0 : F->f_pos;
	fi_fs = F == NULL ? "<none>" : stringof(F->f_path.dentry->d_sb->s_type->name);
	fi_mount = F == NULL ? "<none>" : pathof(1, F->f_path.mnt);
	fi_oflags = F == NULL ? 0 : F->f_flags;
};

inline fileinfo_t fds[int N] = xlate <fileinfo_t> (files_file[curthread->files, N]);
#pragma D attributes Stable/Stable/Common fds
#pragma D binding "1.1" fds
