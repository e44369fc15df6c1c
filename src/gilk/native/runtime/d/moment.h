/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The time and the processor of a hit. Both cost more than most clauses, so they are read when first used, and kept in
 * the event.
 *
 * Need: the event of a context belongs to the caller, and may be written to. Its time is 0 and its processor GD_NO_CPU
 * until they are read.
 *
 * A thread may be moved to another processor at any instruction. So the number only selects a processor's memory, which
 * is changed by host_swap_own() and host_add_own() alone.
 */
#ifndef GILK_D_MOMENT_H
#define GILK_D_MOMENT_H

#include "../../host/host.h"
#include "context.h"

static inline gd_u64 gd_time(struct gd_context *ctx)
{
	if (!ctx->event->time)
		ctx->event->time = host_stamp();
	return ctx->event->time;
}

static inline gd_u32 gd_cpu(struct gd_context *ctx)
{
	if (__builtin_expect(ctx->event->cpu == GD_NO_CPU, 1))
		ctx->event->cpu = host_processor();
	return ctx->event->cpu;
}

#endif
