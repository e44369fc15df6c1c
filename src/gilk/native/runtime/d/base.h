/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Functions that all parts of the D runtime use: atomic operations, faults, drops.
 *
 * Ownership: nothing is held. Shared words are changed only by these functions and those of abi/gilk_atomic.h: each
 * change is one instruction, so that no handler can run in the middle of it.
 */
#ifndef GILK_D_BASE_H
#define GILK_D_BASE_H

#include "../../abi/gilk_atomic.h"
#include "moment.h"

/* Put this into loops over bytes: it keeps the compiler from turning them into calls of memcpy(). */
#define GD_LOOP() __asm__ volatile("" : : : "memory")

#define gd_likely(x) __builtin_expect(!!(x), 1)
#define gd_unlikely(x) __builtin_expect(!!(x), 0)

/* Mark functions that are seldom called, so that their callers need not save registers on the usual path. */
#ifdef __SSE2__
#define GD_COLD static __attribute__((__noinline__, __cold__, __unused__))
#else
#define GD_COLD static __attribute__((__noinline__, __cold__, __unused__, __no_caller_saved_registers__))
#endif

static inline gd_u64 gd_get(const gd_u64 *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline gd_u32 gd_get32(const gd_u32 *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void gd_put(gd_u64 *word, gd_u64 value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline struct gd_control *gd_control(struct gd_context *ctx)
{
	return (struct gd_control *)ctx->memory;
}

static inline void gd_drop_on(gd_u8 *memory, const struct gd_layout *l, gd_u64 cpu, enum gd_drop kind)
{
	struct gd_drops *drops = (struct gd_drops *)(memory + l->drops) + (cpu & (l->buffers - 1));

	host_add_own(&drops->count[kind], 1);
}

static inline void gd_drop(struct gd_context *ctx, enum gd_drop kind)
{
	gd_drop_on(ctx->memory, ctx->layout, gd_cpu(ctx), kind);
}

/* Record a fault of the clause, unless it has one already. Returns false, so that callers can return that. */
static inline bool gd_fail(struct gd_context *ctx, enum gd_fault fault, gd_u64 address)
{
	if (!ctx->fault) {
		ctx->fault = fault;
		ctx->address = address;
	}
	return false;
}

#endif
