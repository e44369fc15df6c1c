/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The stack of the thread that fires a probe, which runtime/shared/walk.h walks.
 *
 * Where clauses run in the consumer, for a thread of the process, the stack was copied while the thread stood still. The
 * copy begins with the red zone: at a function's return the unwind tables may still refer to the slots from which
 * registers have been popped.
 *
 * Ownership: the tables lie in the D program's memory or, where several processes share that, in memory of the one
 * process (D_UNWIND bytes from it). Copies lie in scratch memory of the clause, which is released when the walk ends.
 */
#ifndef GILK_D_STACK_H
#define GILK_D_STACK_H

#include "../shared/walk.h"
#include "environment.h"
#include "peek.h"
#include "scratch.h"

struct gd_walk {
	struct gw_walk walk; /* first: gw_prepare() finds the rest by it */
	struct gd_context *ctx;
};

static inline void gd_open_tables(struct gd_context *ctx, struct gw_tables *tables)
{
#ifdef D_UNWIND
	gw_open_tables(tables, ctx->memory + D_UNWIND, D_UNWIND_SIZE);
#else
	gw_open_tables(tables, ctx->memory + ctx->layout->unwind, ctx->layout->unwind_size);
#endif
}

static inline int gw_prepare(struct gw_walk *w)
{
	struct gd_context *ctx = ((struct gd_walk *)w)->ctx;

	if (ctx->no_memory && !ctx->self)
		return 0;
	w->copy.data = gd_alloca(ctx, GW_COPY);
	w->pid = gd_self(ctx);
	return w->copy.data != 0;
}

static inline struct gw_window gd_stack_page(const struct gd_event *event, gd_u64 sp, bool elsewhere)
{
	if (event->copied)
		return (struct gw_window){sp - GW_RED_ZONE, event->copied, (const gd_u8 *)(event->regs + GW_REGS)};
	if (elsewhere)
		return (struct gw_window){sp, 0, (const gd_u8 *)sp};
	return gw_page(sp);
}

static inline void gd_walk_begin(struct gd_walk *of, struct gd_context *ctx)
{
	const gd_u64 *regs = ctx->event->regs;
	struct gw_walk *w = &of->walk;

	of->ctx = ctx;
	w->regs = regs;
	w->copies = 0;
	w->exact = 1;
	w->edge = ctx->event->edge != 0;
	w->pc = regs ? regs[GW_PC] : 0;
	w->sp = regs ? regs[GW_SP] : 0;
	w->bp = regs ? regs[GW_BP] : 0;
	w->bx = regs ? regs[GW_BX] : 0;
	w->page = gd_stack_page(ctx->event, w->sp, ctx->no_memory);
	w->copy = (struct gw_window){0, 0, 0};
	gd_open_tables(ctx, &w->tables);
}

/* Store the addresses of at most `most` frames. Returns how many there are; if `to` is null they are only counted. */
static __attribute__((__noinline__, __unused__)) gd_u64 gd_walk_stack(struct gd_context *ctx, gd_u64 *to, gd_u64 most)
{
	struct gd_walk w;
	gd_u64 n = 0;

	gd_walk_begin(&w, ctx);
	if (!w.walk.pc || !most)
		return 0;
	do {
		if (to)
			to[n] = w.walk.pc;
	} while (++n < most && gw_step(&w.walk));
	if (w.walk.copy.data)
		ctx->scratch_used = (gd_u32)(w.walk.copy.data - ctx->scratch);
	return n;
}

/* Record the user stack in at most `words` words. Returns how many bytes are used. */
static inline gd_u32 gd_take_ustack(struct gd_context *ctx, gd_u64 *to, gd_u64 words)
{
	to[0] = gd_whose(ctx);
	return (gd_u32)(gd_walk_stack(ctx, to + 1, words - 1) + 1) * 8;
}

static inline void gd_put_ustack(struct gd_context *ctx, gd_u64 *to, gd_u64 words)
{
	gd_u32 used = gd_take_ustack(ctx, to, words);

	gd_zero((gd_u8 *)to + used, words * 8 - used);
}

static inline gd_u64 gd_ustackdepth(struct gd_context *ctx)
{
	return gd_walk_stack(ctx, 0, GW_DEEPEST);
}

/* The return address of the innermost frame; 0: there is none. */
static inline gd_u64 gd_ucaller(struct gd_context *ctx)
{
	gd_u64 frames[2];

	return gd_walk_stack(ctx, frames, 2) < 2 ? 0 : frames[1];
}

#endif
