/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls that go on in another function, since theirs has ended in a jump to it (a tail call).
 *
 * The jump leaves a note of the thread and the stack pointer, which at the return is what it was at the jump. Several
 * functions may have jumped one after another: their notes have numbers from 0, in order. A function that comes to a
 * jump again, before its call is over, has one note.
 *
 * In a process, a call may be left without a return, by longjmp or an exception. So each jump marks the notes of its
 * stack pointer as passed on, and the entry of the function that it leads to takes the mark away. An entry that finds
 * notes without the mark is that of another call, and drops them.
 *
 * Code that was put in at once has notes of its own (GD_TAILS_UNIT): only it knows what they say.
 *
 * Ownership: notes are dynamic variables of the program.
 */
#ifndef GILK_D_TAILS_H
#define GILK_D_TAILS_H

#include "dynamic.h"

#ifndef GD_TAILS_UNIT
#define GD_TAILS_UNIT 0U
#endif
#define GD_TAILS (GD_SELF | (0x7fffffffU - GD_TAILS_UNIT)) /* the variable; the compiler's numbers are lower */
#define GD_TAILS_MOST 8
#define GD_PASSED (1UL << 63) /* in the first note's `what` */

struct gd_tail {
	gd_u64 what; /* the probe in the lower half, and in the upper what the host needs besides */
	gd_u64 at; /* where the jump is, */
	gd_u64 start; /* and where its function begins, if the host needs that */
};

static inline struct gd_tail gd_tail_passed(struct gd_tail tail, bool passed)
{
	tail.what |= passed ? GD_PASSED : 0;
	return tail;
}

struct gd_tail_key {
	gd_u64 sp;
	gd_u64 number;
};

static inline bool gd_tail_store(struct gd_context *ctx, gd_u64 sp, gd_u32 number, struct gd_tail tail)
{
	struct gd_tail_key key = {sp, number};

	return gd_dynamic_store(ctx, GD_TAILS, &key, sizeof key, &tail, sizeof tail);
}

static inline void gd_tail_delete(struct gd_context *ctx, gd_u64 sp, gd_u32 number)
{
	struct gd_tail_key key = {sp, number};

	gd_dynamic_delete(ctx, GD_TAILS, &key, sizeof key);
}

/* Load the notes of a stack pointer, the earliest first, and the mark; returns how many there are. */
static inline gd_u32 gd_tails_load(struct gd_context *ctx, gd_u64 sp, struct gd_tail *to, bool *passed)
{
	struct gd_tail_key key = {sp, 0};

	while (key.number < GD_TAILS_MOST
	       && gd_dynamic_load(ctx, GD_TAILS, &key, sizeof key, &to[key.number], sizeof to[0]))
		key.number++;
	*passed = key.number && to[0].what & GD_PASSED;
	to[0].what &= ~GD_PASSED;
	return (gd_u32)key.number;
}

/* The place of a probe's note among `count`; `count` if it has none. */
static inline gd_u32 gd_tail_find(const struct gd_tail *there, gd_u32 count, gd_u32 probe)
{
	gd_u32 n;

	for (n = 0; n < count && (gd_u32)there[n].what != probe; n++)
		;
	return n;
}

/* Note that the call with this stack pointer goes on elsewhere. False: there is no room, and a drop is counted. */
static inline bool gd_tail_note(struct gd_context *ctx, gd_u64 sp, struct gd_tail tail)
{
	struct gd_tail there[GD_TAILS_MOST];
	bool passed;
	gd_u32 count = gd_tails_load(ctx, sp, there, &passed), n = gd_tail_find(there, count, (gd_u32)tail.what);

	if (n == GD_TAILS_MOST) {
		gd_drop(ctx, GD_DROP_DYNAMIC);
		return false;
	}
	if (n && !passed)
		gd_tail_store(ctx, sp, 0, gd_tail_passed(there[0], true));
	return gd_tail_store(ctx, sp, n, gd_tail_passed(tail, !n));
}

/* Take the notes of the stack pointer, the earliest first; returns how many there were. */
static inline gd_u32 gd_tails_take(struct gd_context *ctx, gd_u64 sp, struct gd_tail *to)
{
	bool passed;
	gd_u32 n, count = gd_tails_load(ctx, sp, to, &passed);

	for (n = count; n; n--)
		gd_tail_delete(ctx, sp, n - 1);
	return count;
}

/* Forget one note of the stack pointer: that call has returned by itself. */
static inline void gd_tail_forget(struct gd_context *ctx, gd_u64 sp, gd_u32 probe)
{
	struct gd_tail there[GD_TAILS_MOST];
	bool passed;
	gd_u32 count = gd_tails_load(ctx, sp, there, &passed), n = gd_tail_find(there, count, probe);

	if (n == count)
		return;
	for (; n + 1 < count; n++)
		gd_tail_store(ctx, sp, n, there[n + 1]);
	gd_tail_delete(ctx, sp, count - 1);
}

/* At a jump to another function, or where the function goes on, since the jump was not taken: set or clear the mark. */
static inline void gd_tails_pass(struct gd_context *ctx, gd_u64 sp, bool pass)
{
	struct gd_tail there[GD_TAILS_MOST];
	bool passed;

	if (gd_tails_load(ctx, sp, there, &passed) && passed != pass)
		gd_tail_store(ctx, sp, 0, gd_tail_passed(there[0], pass));
}

/* At the entry of a function in which calls may go on: clear the mark, or drop the notes of a call that was left. */
static inline void gd_tails_enter(struct gd_context *ctx, gd_u64 sp)
{
	struct gd_tail there[GD_TAILS_MOST];
	bool passed;

	if (!gd_tails_load(ctx, sp, there, &passed))
		return;
	if (passed)
		gd_tail_store(ctx, sp, 0, there[0]);
	else
		gd_tails_take(ctx, sp, there);
}

#endif
