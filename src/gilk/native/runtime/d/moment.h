/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * When a hit is, and on which processor: asked of the machine by the first that
 * wants to know, because both cost more than most clauses.
 *
 * Need: the event of a context is its caller's, and may be written to. Its time
 * is 0 and its processor GD_NO_CPU until they are asked for.
 *
 * A thread may be moved to another processor at any instruction. So the number
 * only chooses whose memory is used; what is there changes by locked instructions.
 */
#ifndef GILK_D_MOMENT_H
#define GILK_D_MOMENT_H

#include <stdbool.h>

#include "context.h"

/* Not volatile: what nobody asks for is not asked of the machine. */
static inline gd_u64 gd_clock(void)
{
	gd_u32 low, high;

	__asm__("rdtsc" : "=a"(low), "=d"(high));
	return (gd_u64)high << 32 | low;
}

/* IA32_TSC_AUX, which Linux has hold the processor's number; the same is the limit of a segment (vdso, getcpu). */
static inline gd_u32 gd_processor(void)
{
	gd_u64 number;

#ifdef GD_RDPID
	__asm__("rdpid %0" : "=r"(number));
#else
	__asm__("lsl %k1, %k0" : "=r"(number) : "r"(0x7bUL) : "cc");
#endif
	return number & 0xfff;
}

static inline gd_u64 gd_time(struct gd_context *ctx)
{
	if (!ctx->event->time)
		ctx->event->time = gd_clock();
	return ctx->event->time;
}

static inline gd_u32 gd_cpu(struct gd_context *ctx)
{
	if (__builtin_expect(ctx->event->cpu == GD_NO_CPU, 1))
		ctx->event->cpu = gd_processor();
	return ctx->event->cpu;
}

#endif
