/* SPDX-License-Identifier: GPL-2.0 */
/* Facts about the running task, for clauses. Interrupts are off. Tests replace this file by their own. */
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
#include <linux/skbuff.h>

#include "../compat.h"
#include "../omit.h"

#define HOST_CHECKS_RANGES !ilk_hit_omits(ILK_OMIT_RANGE)
#define HOST_CATCHES_FAULTS !ilk_hit_omits(ILK_OMIT_FIXUP)

/*
 * Store at most `most` return addresses of the kernel stack in `to`, unless that is null, the innermost first. Returns
 * how many there are. The walk begins at `regs` (struct gilk_regs); null: at the interrupted place, if that is in the
 * kernel. In stack.c.
 */
u32 ilk_d_stack(const void *regs, u64 *to, u32 most);

/*
 * The same for the task's stack in user space, by frame pointers; the innermost address is the place where it entered
 * the kernel. 0 for a task without user space. `edge`: the innermost function's frame is its return address only. In
 * process.c, as are the next two.
 */
u32 ilk_d_user_stack(u64 *to, u32 most, u64 edge);

/* Load a register of the task in user space; `place` is its index in struct gilk_regs. False: there is none. */
bool ilk_d_user_register(u32 place, u64 *to);

/* The task's process and image as one number (ilk_d_abi.h). The client will be told what the image has mapped. */
struct ilk_images;
u64 ilk_d_image(struct ilk_images *images);

/* Send a signal to the running task as soon as the clause is over. False: the task or the number allows none. */
struct ilk_deeds;
bool ilk_d_signal(struct ilk_deeds *deeds, u64 number);

/* Whether the task's process may be written to: any but the client, which fires BEGIN and END itself. */
bool ilk_d_may_write(const struct ilk_deeds *deeds);

/* Spin for `ns`. False: this processor has not so much of its limit left. In deeds.c. */
bool ilk_d_chill(u64 ns);

#define ILK_D_NAME sizeof(current->comm)

enum { ILK_D_PARENT, ILK_D_UID, ILK_D_GID, ILK_D_EUID, ILK_D_EGID, ILK_D_THREAD, ILK_D_PROCESSOR, ILK_D_IDENTITIES };

static inline const char *ilk_d_task_name(void)
{
	return current->comm;
}

/* A fact by its number. The parent task is freed by RCU, so it can be read with interrupts off. */
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
	return __my_cpu_offset; /* the offset of this CPU's per-CPU variables */
}

#define ILK_D_ANCESTORS 512 /* ancestors that are tried; costs of helpers count on it */

/*
 * Whether the task or one of its ancestors is `process`. Ancestors are freed by RCU: a task that ends gives its
 * children another parent first.
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

/* min() and max() are no constants, which sizes of arrays are. */
#define ILK_D_LESS(a, b) ((a) < (b) ? (a) : (b))
#define ILK_D_MORE(a, b) ((a) > (b) ? (a) : (b))

/* Offsets in kernel structs for files.h. */
#define ILK_D_DENTRY_PARENT offsetof(struct dentry, d_parent)
#define ILK_D_DENTRY_NAME offsetof(struct dentry, d_name.name)
#define ILK_D_DENTRY_LENGTH offsetof(struct dentry, d_name.len)
#define ILK_D_DENTRY_FROM ILK_D_LESS(ILK_D_DENTRY_PARENT, offsetof(struct dentry, d_name))
#define ILK_D_DENTRY_SIZE                                                                                              \
	(ILK_D_MORE(ILK_D_DENTRY_PARENT + 8, offsetof(struct dentry, d_name) + sizeof(struct qstr)) - ILK_D_DENTRY_FROM)
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

/* The address of the pointer to the struct fs_struct of process 1. */
static inline u64 ilk_d_first(void)
{
	return (u64)(unsigned long)&READ_ONCE(init_pid_ns.child_reaper)->fs;
}

/* The task's working directory, or its root; 0 if the task has none because it ends. Another thread may change both. */
static inline void ilk_d_directory(bool own, u64 *dentry, u64 *mount)
{
	const struct fs_struct *fs = READ_ONCE(current->fs);
	const struct path *path = own ? &fs->pwd : &fs->root;

	*dentry = fs ? (u64)(unsigned long)READ_ONCE(path->dentry) : 0;
	*mount = fs ? (u64)(unsigned long)READ_ONCE(path->mnt) : 0;
}

/*
 * The place of the running process's arguments, if `mm` is its memory. The process may change both place and content.
 */
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

/* Offsets in the structs of packets for packets.h. */
#define ILK_D_PACKET_LENGTH offsetof(struct sk_buff, len)
#define ILK_D_PACKET_APART offsetof(struct sk_buff, data_len)
#define ILK_D_PACKET_DATA offsetof(struct sk_buff, data)
#define ILK_D_PACKET_HEAD offsetof(struct sk_buff, head)
#define ILK_D_PACKET_END offsetof(struct sk_buff, end)
#define ILK_D_PACKET_COUNT offsetof(struct skb_shared_info, nr_frags)
#define ILK_D_PACKET_FRAGMENTS offsetof(struct skb_shared_info, frags)
#define ILK_D_FRAGMENT_SIZE sizeof(skb_frag_t)

/* The place of the bytes that a copy of a skb_frag_t tells of, whatever that may be. */
static inline void ilk_d_fragment(const void *seen, u64 *from, u64 *size)
{
	skb_frag_t fragment;

	memcpy(&fragment, seen, sizeof(fragment));
	*from = (u64)(unsigned long)page_to_virt(skb_frag_page(&fragment)) + skb_frag_off(&fragment);
	*size = skb_frag_size(&fragment);
}

#endif
