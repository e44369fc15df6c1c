/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The destructive actions of a program, which change the process: signals, stores, delays.
 *
 * A clause only requests a signal. It is sent when all clauses of the firing have run and hold nothing any more, so
 * that a thread that stops, dies, or leaves its handler by longjmp keeps no record open and no scratch memory.
 *
 * Ownership: ctx->signals is a word of the caller's.
 */
#ifndef GILK_D_DEEDS_H
#define GILK_D_DEEDS_H

#include "program.h"

#define GD_SIGNALS 64
#define GD_SIGSTOP 19
#define GD_CHILL_MOST 500000000UL /* ns of chill() that are allowed in */
#define GD_CHILL_IN 1000000000UL  /* so many ns on a processor, as DTrace limits it */

/* Request a signal. It is a fault where the probe fired in no process: the thread there is the consumer's. */
static inline bool gd_ask_signal(struct gd_context *ctx, gd_s64 number)
{
	if ((ctx->no_memory && !ctx->self) || number < 1 || number > GD_SIGNALS)
		return gd_fail(ctx, GD_FAULT_ILLEGAL, (gd_u64)number);
	*ctx->signals |= 1UL << (number - 1);
	return true;
}

/*
 * Send the wanted signals, the lowest number first, to the thread of the event. That is the running thread, except in
 * samples, which the consumer takes of another thread.
 */
static inline void gd_send_signals(const struct gd_event *event, bool of_another, gd_u64 wanted)
{
	gd_u32 pid, tid;

	if (gd_likely(!wanted))
		return;
	pid = of_another ? event->pid : host_pid();
	tid = of_another ? event->tid : host_tid();
	for (; wanted; wanted &= wanted - 1)
		host_signal(pid, tid, (gd_u32)__builtin_ctzl(wanted) + 1);
}

/* copyoutstr(): store at most `most` bytes of the text, and its NUL if that is among them. */
static inline bool gd_store_string(struct gd_context *ctx, gd_u64 address, const char *text, gd_u64 most)
{
	gd_u64 size = gd_strlen(ctx, text) + 1;

	return gd_store(ctx, address, text, size < most ? size : most);
}

static inline gd_u64 gd_now(struct gd_context *ctx)
{
	return gd_at(ctx, host_clock());
}

static inline struct gd_buffer *gd_chilled(struct gd_context *ctx)
{
	return gd_buffer_of(gd_writer(ctx)).head;
}

/* Whether this processor may spin for `ns` more within its limit; if so, they are counted. */
static inline bool gd_may_chill(struct gd_context *ctx, gd_u64 ns)
{
	struct gd_buffer *b = gd_chilled(ctx);
	gd_u64 since = gd_get(&b->chill_since), now = gd_now(ctx);

	if (now - since > GD_CHILL_IN && gilk_swap(&b->chill_since, since, now))
		gd_put(&b->chill_spent, 0);
	if (ns > GD_CHILL_MOST)
		return false;
	if (__atomic_fetch_add(&b->chill_spent, ns, __ATOMIC_RELAXED) + ns <= GD_CHILL_MOST)
		return true;
	gilk_add(&b->chill_spent, -ns);
	return false;
}

/*
 * It spins, as in DTrace: a thread that slept would give the processor to others. The length of a tick is read from
 * memory that the process can write to, so it is bounded: no processor has more than eight ticks in a ns.
 */
static inline bool gd_chill(struct gd_context *ctx, gd_s64 ns)
{
	gd_u64 start = gd_now(ctx), first = host_clock();

	if (ns < 0 || !gd_may_chill(ctx, (gd_u64)ns))
		return gd_fail(ctx, GD_FAULT_ILLEGAL, (gd_u64)ns);
	while (gd_now(ctx) - start < (gd_u64)ns && host_clock() - first < 8 * (gd_u64)ns)
		__builtin_ia32_pause();
	return true;
}

#endif
