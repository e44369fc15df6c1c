/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The life of a clause: its beginning, its end, and the record of its fault.
 *
 * Ownership: gd_end() releases everything that the context holds; after it only gd_report() may be called.
 */
#ifndef GILK_D_CLAUSE_H
#define GILK_D_CLAUSE_H

#include "scratch.h"
#include "speculation.h"

/* Runs at each hit, so it sets only the members that are read before anything else sets them. */
static inline void gd_begin(struct gd_context *ctx, void *memory, const struct gd_layout *l,
			    struct gd_event *event)
{
	ctx->memory = memory;
	ctx->layout = l;
	ctx->event = event;
	ctx->table = 0;
	ctx->data = 0;
	ctx->mark = 0;
	ctx->scratch = 0;
	ctx->token = 0;
	ctx->address = 0;
	ctx->fault = GD_FAULT_NONE;
	ctx->speculation = 0;
	ctx->self = 0;
	ctx->no_memory = 0;
}

static inline bool gd_active(struct gd_context *ctx)
{
	return gd_lets(gd_get32(&gd_control(ctx)->state), ctx->event->probe);
}

static inline void gd_end(struct gd_context *ctx)
{
	gd_settle(ctx, !ctx->fault);
	gd_free_scratch(ctx);
}

#define GD_END_PROBE 2 /* providers/own.py */

/* The status of the first exit() counts, unless END calls exit() too. */
static inline void gd_exit(struct gd_context *ctx, gd_u32 status)
{
	struct gd_control *control = gd_control(ctx);

	if (gilk_swap32(&control->exit_status, 0, status | GD_EXITED)) {
		if (!gilk_swap32(&control->state, GD_ACTIVE, GD_DRAINING))
			gilk_swap32(&control->state, GD_BEGINNING, GD_DRAINING);
	} else if (ctx->event->probe == GD_END_PROBE)
		gilk_swap32(&control->exit_status, gd_get32(&control->exit_status), status | GD_EXITED);
}

static inline void *gd_global(struct gd_context *ctx, gd_u32 offset)
{
	return ctx->memory + ctx->layout->globals + offset;
}

struct gd_hit { /* the part of the event that records contain */
	gd_u64 time;
	gd_u32 pid;
	gd_u32 probe;
};

GD_COLD void gd_tell(struct gd_writer by, struct gd_hit hit, struct gd_fault_data told)
{
	struct gd_event event = {.time = hit.time, .cpu = by.cpu, .pid = hit.pid, .tid = by.tid, .probe = hit.probe};
	struct gd_context ctx;

	gd_begin(&ctx, by.memory, by.layout, &event);
	if (!gd_reserve_principal(&ctx, GD_EPID_FAULT, sizeof told))
		return;
	*(struct gd_fault_data *)ctx.data = told;
	gd_settle_principal(&ctx, true);
}

/* Write a record of the fault. It goes to the principal buffer even while the clause speculates. */
static inline void gd_report(struct gd_context *ctx, gd_u32 epid, gd_u32 action, gd_u32 offset)
{
	gd_tell(gd_writer(ctx), (struct gd_hit){gd_time(ctx), ctx->event->pid, ctx->event->probe},
		(struct gd_fault_data){epid, action, offset, ctx->fault, ctx->address});
}

#endif
