/* SPDX-License-Identifier: GPL-2.0 */
/* The facts about the task that runs which clauses ask for. Interrupts are off; tests have a file of their own for this. */
#ifndef ILK_D_TASK_H
#define ILK_D_TASK_H

#include <linux/cred.h>
#include <linux/sched.h>

#define ILK_D_NAME sizeof(current->comm)

enum { ILK_D_PARENT, ILK_D_UID, ILK_D_GID, ILK_D_EUID, ILK_D_EGID, ILK_D_IDENTITIES };

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
	}
	return cred->egid.val;
}

#endif
