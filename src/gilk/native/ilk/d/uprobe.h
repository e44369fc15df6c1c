/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Checks a message ILK_D_UPROBE, as far as that is possible without looking at files and processes.
 *
 * Need: the types of the including file: u32, u64, bool. No function is called: tests include it in user space, too.
 */
#ifndef ILK_D_UPROBE_H
#define ILK_D_UPROBE_H

#include "../../abi/ilk_d_abi.h"

/* `size`: bytes of the message. `groups`: of the client's program. */
static inline bool ilk_d_uprobe_fits(const struct ilk_d_uprobe *m, u32 size, u32 groups)
{
	u32 i;

	if (m->descriptor < 0 || m->group >= groups || m->flags & ~(ILK_D_DEEP | ILK_D_EDGE) || m->semaphore & 1 ||
	    m->role >= ILK_D_ROLES || m->reserved ||
	    (m->kind != ILK_D_ENTRY && m->kind != ILK_D_RETURN) || !m->length || m->length > ILK_D_INSTRUCTION ||
	    m->count > ILK_D_UPROBE_PROCESSES || m->count > (size - sizeof(*m)) / sizeof(m->process[0]))
		return false;
	for (i = 0; i < m->count; i++)
		if (!m->process[i] || m->process[i] > 0x7fffffffu)
			return false;
	return true;
}

/* Whether the instruction, and the counter if there is one, lie in a file of so many bytes. */
static inline bool ilk_d_uprobe_lies_in(const struct ilk_d_uprobe *m, u64 file)
{
	return file >> 63 == 0 && m->offset < file && m->length <= file - m->offset && m->semaphore < file &&
	       (!m->semaphore || file - m->semaphore >= 2);
}

#endif
