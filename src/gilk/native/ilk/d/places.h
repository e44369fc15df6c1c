/* SPDX-License-Identifier: GPL-2.0 */
/* How helpers are declared, and how they check the offsets that checked code passes. */
#ifndef ILK_D_PLACES_H
#define ILK_D_PLACES_H

#include "../../runtime/d/base.h"
#include "run.h"

#define HELPER(name) static u64 d_##name(void *frame, u64 a, u64 b, u64 c, u64 d, u64 e)

static struct ilk_run *run_of(void *frame)
{
	return (struct ilk_run *)((u8 *)frame - offsetof(struct ilk_run, frame));
}

/* The address of `size` bytes at an offset in the frame; null: they do not lie in it, and the clause has a fault. */
static void *at(struct ilk_run *run, u64 place, u64 size)
{
	u64 frame = run->clauses->sizes.frame;

	if (place > frame || size > frame - place) {
		gd_fail(&run->context, GD_FAULT_ILLEGAL, place);
		return 0;
	}
	return (u8 *)run->frame + place;
}

static bool is_in(struct ilk_run *run, u64 place, u64 size, u64 all)
{
	if (place <= all && size <= all - place)
		return true;
	return gd_fail(&run->context, GD_FAULT_ILLEGAL, place);
}

#endif
