/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Safeguards that tests leave out, to show that each is needed (poke.c has the module parameter `omit`): without it a
 * kernel goes down, or a count is wrong. A hit does not pay for the question while nothing is left out.
 */
#ifndef ILK_OMIT_H
#define ILK_OMIT_H

#include <linux/jump_label.h>
#include <linux/types.h>

#define ILK_BEFORE_JUMP 1u /* the wait before a jump is written */
#define ILK_BEFORE_FREE 2u /* the wait before a patch is free */
#define ILK_OMIT_WHOSE 4u /* uprobes run for the processes that they are for only */
#define ILK_OMIT_NESTING 8u /* no group runs while another one runs in its frame */
#define ILK_OMIT_STACK 16u /* no group runs where little is left of the stack */
#define ILK_OMIT_RANGE 32u /* clauses load from kernel memory, or by the functions for user memory */
#define ILK_OMIT_FIXUP 64u /* a load that faults ends */
#define ILK_OMIT_INTERRUPTS 128u /* interrupts are off while the groups of a site run */

DECLARE_STATIC_KEY_FALSE(ilk_omitting);

bool ilk_omits(u32 what);

static inline bool ilk_hit_omits(u32 what)
{
	return static_branch_unlikely(&ilk_omitting) && ilk_omits(what);
}

#endif
