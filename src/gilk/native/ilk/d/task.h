/* SPDX-License-Identifier: GPL-2.0 */
/* The facts about the task that runs which clauses ask for. Interrupts are off; tests have a file of their own for this. */
#ifndef ILK_D_TASK_H
#define ILK_D_TASK_H

#include <linux/cred.h>
#include <linux/percpu.h>
#include <linux/sched.h>

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

#endif
