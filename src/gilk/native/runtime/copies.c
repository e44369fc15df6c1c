/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The calls at copies that are under way in this thread (include/gilk_copies.h). Advice calls this before it runs
 * anything of a user's. Meanwhile hits in signal handlers find the thread busy, so nothing else changes the list.
 *
 * A call may be left by a jump, and then stays in the list. It is dropped when another call shows that it is over: one
 * of the same copy in the same frame, or one in a frame above it on the same stack.
 */
#include "advice.h"
#include "../include/gilk_copies.h"

#define CALLS ((GILK_ADVICE_OWN - GILK_ADVICE_WORDS) / sizeof(struct gilk_copy_call))

_Static_assert(sizeof(struct gilk_copy_call) == 80, "targets/advised.py");

static gilk_u64 *count_of(const struct gilk_advising *state)
{
	return (gilk_u64 *)(state->high - GILK_COPY_COUNT);
}

static struct gilk_copy_call *call_at(const struct gilk_advising *state, gilk_u64 index)
{
	return (struct gilk_copy_call *)(state->high - GILK_ADVICE_WORDS) - index - 1;
}

/* Copy word by word: a loop over bytes would become a call of memmove(), which the runtime does not have. */
static void copy_call(struct gilk_copy_call *to, const struct gilk_copy_call *from)
{
	gilk_u64 n;

	for (n = 0; n < sizeof *to / sizeof(gilk_u64); n++)
		((volatile gilk_u64 *)to)[n] = ((const volatile gilk_u64 *)from)[n];
}

/* Remove a call; it lies behind the last one then. */
static struct gilk_copy_call *take_out(struct gilk_advising *state, gilk_u64 index)
{
	gilk_u64 *count = count_of(state);
	struct gilk_copy_call one, *last = call_at(state, *count - 1);

	copy_call(&one, call_at(state, index));
	for (; index + 1 < *count; index++)
		copy_call(call_at(state, index), call_at(state, index + 1));
	copy_call(last, &one);
	--*count;
	return last;
}

static struct gilk_copy_call *find(struct gilk_advising *state, gilk_u64 frame, gilk_u64 number)
{
	gilk_u64 index;

	for (index = *count_of(state); index--;) {
		const struct gilk_copy_call *one = call_at(state, index);

		if (one->frame == frame && one->number == number)
			return take_out(state, index);
	}
	return 0;
}

/* Drop all calls that are over because one begins in the frame `frame`. This asks for the alternate signal stack. */
static void prune(struct gilk_advising *state, gilk_u64 frame)
{
	struct host_stack other;
	gilk_u64 index;

	host_other_stack(&other);
	for (index = *count_of(state); index--;)
		if (gilk_advice_is_over(&other, call_at(state, index)->frame, frame - 1)) {
			take_out(state, index);
			state->dropped++;
		}
}

struct gilk_copy_call *gilk_copy_enter(gilk_u64 frame, gilk_u64 number)
{
	struct gilk_advising *state = &host_block()->advising;
	gilk_u64 *count = count_of(state);
	struct gilk_copy_call *one;

	if (find(state, frame, number))
		state->dropped++;
	if (*count && call_at(state, *count - 1)->frame < frame)
		prune(state, frame);
	if (*count >= CALLS)
		prune(state, frame);
	if (*count >= CALLS) {
		state->skipped++;
		return 0;
	}
	one = call_at(state, (*count)++);
	one->frame = frame;
	one->number = number;
	return one;
}

const struct gilk_copy_call *gilk_copy_leave(gilk_u64 frame, gilk_u64 number)
{
	return find(&host_block()->advising, frame, number);
}
