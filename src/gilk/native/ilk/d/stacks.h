/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers for stacks: the kernel's, and that of the running task in user space, also in interrupts; and its registers
 * there.
 */
#ifndef ILK_D_STACKS_H
#define ILK_D_STACKS_H

#include "../../runtime/d/deeds.h"
#include "../../runtime/d/program.h"
#include "places.h"
#include "run.h"

/* The kernel's stack. */

HELPER(stack)
{
	struct ilk_run *run = run_of(frame);
	u64 *to = at(run, a, b);
	u64 count;

	if (!to || b < 8 || (a | b) % 8)
		return 0;
	to[0] = 0;
	count = 1 + ilk_d_stack(run->event.regs, to + 1, (u32)(b / 8 - 1));
	gd_zero(to + count, b - 8 * count);
	return 1;
}

HELPER(caller)
{
	u64 found[2];

	return ilk_d_stack(run_of(frame)->event.regs, found, 2) == 2 ? found[1] : 0;
}

HELPER(stackdepth)
{
	return ilk_d_stack(run_of(frame)->event.regs, 0, ILK_D_DEEPEST);
}

/* User space of the running task, also in interrupts. */

HELPER(image)
{
	return ilk_d_image(run_of(frame)->clauses->images);
}

HELPER(ustack)
{
	struct ilk_run *run = run_of(frame);
	u64 *to = at(run, a, b);
	u64 count;

	if (!to || b < 8 || (a | b) % 8)
		return 0;
	to[0] = ilk_d_image(run->clauses->images);
	count = 1 + ilk_d_user_stack(to + 1, (u32)(b / 8 - 1), run->event.edge);
	gd_zero(to + count, b - 8 * count);
	return 1;
}

HELPER(ucaller)
{
	u64 found[2];

	return ilk_d_user_stack(found, 2, run_of(frame)->event.edge) == 2 ? found[1] : 0;
}

HELPER(ustackdepth)
{
	return ilk_d_user_stack(0, ILK_D_DEEPEST_USER, run_of(frame)->event.edge);
}

HELPER(uregister)
{
	struct ilk_run *run = run_of(frame);
	u64 *to = at(run, a, 8);

	if (!to)
		return 0;
	return (b < sizeof(gd_register_places) && ilk_d_user_register(gd_register_places[b], to)) ||
	       gd_fail(&run->context, GD_FAULT_ILLEGAL, 0);
}

#endif
