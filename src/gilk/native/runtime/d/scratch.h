/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Scratch memory: a slot for each execution of a clause that asks for some.
 *
 * Ownership: a slot belongs to the context from the cmpxchg that claims it until gd_end().
 */
#ifndef GILK_D_SCRATCH_H
#define GILK_D_SCRATCH_H

#include "base.h"

static inline gd_u32 *gd_scratch_owner(struct gd_context *ctx)
{
	return (gd_u32 *)(ctx->memory + ctx->layout->scratch_owner);
}

static inline bool gd_claim_scratch(struct gd_context *ctx)
{
	const struct gd_layout *l = ctx->layout;
	gd_u32 *owner = gd_scratch_owner(ctx), tid = ctx->event->tid | !ctx->event->tid;
	gd_u64 n;

	for (n = 0; n < l->scratches; n++) {
		gd_u64 slot = (tid + n) & (l->scratches - 1);

		if (!gd_get32(&owner[slot]) && gilk_swap32(&owner[slot], 0, tid)) {
			ctx->scratch = ctx->memory + l->scratch_first + slot * l->scratch_size;
			ctx->scratch_slot = (gd_u32)slot;
			ctx->scratch_used = ctx->scratch_asked = 0;
			return true;
		}
	}
	return false;
}

static inline void gd_free_scratch(struct gd_context *ctx)
{
	if (ctx->scratch)
		__atomic_store_n(&gd_scratch_owner(ctx)[ctx->scratch_slot], 0, __ATOMIC_RELEASE);
	ctx->scratch = 0;
}

static inline void *gd_alloca(struct gd_context *ctx, gd_u64 size)
{
	gd_u64 room = ctx->layout->scratch_size;
	void *got;

	if (size > room || !host_has_room() || (!ctx->scratch && !gd_claim_scratch(ctx))
	    || ((size + 7) & -8UL) > room - ctx->scratch_used) {
		gd_fail(ctx, GD_FAULT_SCRATCH, 0);
		return 0;
	}
	got = ctx->scratch + ctx->scratch_used;
	ctx->scratch_used += (gd_u32)((size + 7) & -8UL);
	return got;
}

/*
 * The same for memory that a program asks for by its size: at most `most` bytes in all, in whole words; strings do not
 * count.
 */
static inline void *gd_asked(struct gd_context *ctx, gd_u64 size, gd_u64 most)
{
	gd_u64 before = ctx->scratch ? ctx->scratch_asked : 0, rounded = (size + 7) & -8UL;
	void *got;

	if (size > most || rounded > ((most + 7) & -8UL) - before) {
		gd_fail(ctx, GD_FAULT_SCRATCH, 0);
		return 0;
	}
	got = gd_alloca(ctx, size);
	if (got)
		ctx->scratch_asked = (gd_u32)(before + rounded);
	return got;
}

#endif
