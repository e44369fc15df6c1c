/* SPDX-License-Identifier: GPL-2.0 */
/* The facts about the task that runs which clauses ask for. Interrupts are off; tests have a file of their own for this. */
#ifndef ILK_D_TASK_H
#define ILK_D_TASK_H

#include <linux/cred.h>
#include <linux/dcache.h>
#include <linux/fs.h>
#include <linux/fs_struct.h>
#include <linux/magic.h>
#include <linux/mm_types.h>
#include <linux/mount.h>
#include <linux/percpu.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>

#include "../compat.h"

/*
 * The addresses on the kernel's stack, the innermost first, at most `most`, into `to` unless that is null: how many. From
 * `regs` on, of struct gilk_regs; null: from what was interrupted, if that was the kernel. In stack.c.
 */
u32 ilk_d_stack(const void *regs, u64 *to, u32 most);

/*
 * The same on the stack that the task has in user space, the innermost being where it left that: by frame pointers. 0 of a
 * task without one. `edge`: there, the return address is all that the function has on the stack. In process.c, as are the
 * others.
 */
u32 ilk_d_user_stack(u64 *to, u32 most, u64 edge);

/* A register that the task had in user space: the place in struct gilk_regs. False: there is none. */
bool ilk_d_user_register(u32 place, u64 *to);

/* The process of the task, and which of its images (ilk_d_abi.h); the client will be told what that image has mapped. */
struct ilk_images;
u64 ilk_d_image(struct ilk_images *images);

/* Send the task that runs a signal, as soon as the clause is over. False: it can be sent none, or none of that number. */
struct ilk_deeds;
bool ilk_d_signal(struct ilk_deeds *deeds, u64 number);

/* Whether the process of the task may be written to: not the client, which fires BEGIN and END itself. */
bool ilk_d_may_write(const struct ilk_deeds *deeds);

/* Spin for so many ns; false: that is more than this processor has left for it. In deeds.c. */
bool ilk_d_chill(u64 ns);

#define ILK_D_NAME sizeof(current->comm)

enum { ILK_D_PARENT, ILK_D_UID, ILK_D_GID, ILK_D_EUID, ILK_D_EGID, ILK_D_THREAD, ILK_D_PROCESSOR, ILK_D_IDENTITIES };

static inline const char *ilk_d_task_name(void)
{
	return current->comm;
}

/* The parent lives as long as the task does, or is exchanged for one that does: RCU frees it. */
static inline u64 ilk_d_task_number(u64 which)
{
	const struct cred *cred = current->cred;

	switch (which) {
	case ILK_D_PARENT:
		return READ_ONCE(current->real_parent)->tgid;
	case ILK_D_UID:
		return cred->uid.val;
	case ILK_D_GID:
		return cred->gid.val;
	case ILK_D_EUID:
		return cred->euid.val;
	case ILK_D_EGID:
		return cred->egid.val;
	case ILK_D_THREAD:
		return (u64)(unsigned long)current;
	}
	return __my_cpu_offset; /* where variables of this CPU are, less where all CPUs have them */
}

#define ILK_D_ANCESTORS 512 /* that are looked at: costs of helpers count on it */

/*
 * Whether the task is of the process, or one of its ancestors is. Each lives, or is freed by RCU: a task that ends gives its
 * children another parent before it goes.
 */
static inline bool ilk_d_is_progeny(u64 process)
{
	const struct task_struct *task = current;
	u32 n;

	for (n = 0; n < ILK_D_ANCESTORS && task->pid; n++) {
		if ((u64)task->tgid == process)
			return true;
		task = READ_ONCE(task->real_parent);
	}
	return false;
}

/* Where files.h finds things: in a dentry from what to what its parent and its name lie, and the rest. */
#define ILK_D_DENTRY_PARENT offsetof(struct dentry, d_parent)
#define ILK_D_DENTRY_NAME offsetof(struct dentry, d_name.name)
#define ILK_D_DENTRY_LENGTH offsetof(struct dentry, d_name.len)
#define ILK_D_DENTRY_FROM min_t(size_t, ILK_D_DENTRY_PARENT, offsetof(struct dentry, d_name))
#define ILK_D_DENTRY_SIZE                                                                                              \
	(max_t(size_t, ILK_D_DENTRY_PARENT + 8, offsetof(struct dentry, d_name) + sizeof(struct qstr)) - ILK_D_DENTRY_FROM)
#define ILK_D_DENTRY_SUPER offsetof(struct dentry, d_sb)
#define ILK_D_DENTRY_DATA offsetof(struct dentry, d_fsdata)
#define ILK_D_DENTRY_INODE offsetof(struct dentry, d_inode)
#define ILK_D_DENTRY_OPERATIONS offsetof(struct dentry, d_op)
#define ILK_D_DENTRY_HASHED offsetof(struct dentry, d_hash.pprev)
#define ILK_D_OPERATIONS_NAME offsetof(struct dentry_operations, d_dname)
#define ILK_D_SUPER_MAGIC offsetof(struct super_block, s_magic)
#define ILK_D_INODE_NUMBER offsetof(struct inode, i_ino)
#define ILK_D_PATH_DENTRY offsetof(struct path, dentry)
#define ILK_D_FIRST_ROOT offsetof(struct fs_struct, root)
#define ILK_D_PATH_MOUNT offsetof(struct path, mnt)
#define ILK_D_MOUNT_ROOT offsetof(struct vfsmount, mnt_root)
#define ILK_D_MOUNT_SUPER offsetof(struct vfsmount, mnt_sb)
#define ILK_D_MOUNT_SIZE sizeof(struct vfsmount)
#define ILK_D_MOUNT_AT offsetof(struct ilk_mount, mnt)
#define ILK_D_MOUNT_ABOVE (ILK_D_MOUNT_AT - offsetof(struct ilk_mount, parent))

enum {
	ILK_D_PIPES = PIPEFS_MAGIC, ILK_D_SOCKETS = SOCKFS_MAGIC, ILK_D_ANONYMOUS = ANON_INODE_FS_MAGIC,
	ILK_D_NAMESPACES = NSFS_MAGIC
};

/* Where the first process has the address of its struct fs_struct. */
static inline u64 ilk_d_first(void)
{
	return (u64)(unsigned long)&READ_ONCE(init_pid_ns.child_reaper)->fs;
}

/* The task's own directory, or its root: 0 of a task without one, which ends. Another thread may change both meanwhile. */
static inline void ilk_d_directory(bool own, u64 *dentry, u64 *mount)
{
	const struct fs_struct *fs = READ_ONCE(current->fs);
	const struct path *path = own ? &fs->pwd : &fs->root;

	*dentry = fs ? (u64)(unsigned long)READ_ONCE(path->dentry) : 0;
	*mount = fs ? (u64)(unsigned long)READ_ONCE(path->mnt) : 0;
}

/* Where the process that runs has its arguments, if that is its memory. It may change where meanwhile, and what is there. */
static inline bool ilk_d_arguments(u64 mm, u64 *start, u64 *end)
{
	const struct mm_struct *own = current->mm;

	*start = *end = 0;
	if (!own || (u64)(unsigned long)own != mm)
		return false;
	*start = READ_ONCE(own->arg_start);
	*end = READ_ONCE(own->arg_end);
	return true;
}

#endif
