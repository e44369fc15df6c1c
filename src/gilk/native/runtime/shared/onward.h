/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The notes of calls that go on in another function (abi/gilk_onward.h): make one, find it, take it out.
 *
 * A signal handler or an NMI may come between any two instructions: it runs in other frames, so it neither sees nor
 * changes the notes of this one. `open` is raised before a place is claimed and lowered after it is free: if a handler
 * leaves by a jump in between, a return looks in vain, and none is missed.
 *
 * Ownership: the caller gives the table, and the two numbers by which it knows the frame.
 */
#ifndef GILK_SHARED_ONWARD_H
#define GILK_SHARED_ONWARD_H

#include "../../abi/gilk_atomic.h"
#include "../../abi/gilk_onward.h"

struct gilk_onward_frame {
	struct gilk_onward *table;
	gilk_u64 frame;
	gilk_u32 hash;
};

static inline struct gilk_onward_frame gilk_onward_frame(struct gilk_onward *table, gilk_u64 rsp, gilk_u64 key)
{
	struct gilk_onward_frame here = {table, rsp + key, gilk_onward_hash(rsp)};

	return here;
}

/* The next note of the frame, `after` one or, if that is null, the first; null if there is none. */
static inline struct gilk_onward_note *gilk_onward_next(const struct gilk_onward_frame *here,
							 struct gilk_onward_note *after)
{
	struct gilk_onward_note *first = &here->table->note[here->hash], *note = after ? after + 1 : first;

	for (; note < first + GILK_ONWARD_WINDOW; note++)
		if (__atomic_load_n(&note->frame, __ATOMIC_RELAXED) == here->frame)
			return note;
	return 0;
}

static inline void gilk_onward_free(const struct gilk_onward_frame *here, struct gilk_onward_note *note)
{
	note->passed = 0;
	__atomic_store_n(&note->frame, 0, __ATOMIC_RELEASE);
	__atomic_fetch_sub(&here->table->open[here->hash], 1, __ATOMIC_RELAXED);
}

/* A new note of the frame, with its place and order; null if there is no room. */
static inline struct gilk_onward_note *gilk_onward_claim(const struct gilk_onward_frame *here)
{
	struct gilk_onward_note *note = &here->table->note[here->hash];
	int n;

	__atomic_fetch_add(&here->table->open[here->hash], 1, __ATOMIC_RELAXED);
	for (n = 0; n < GILK_ONWARD_WINDOW; n++, note++)
		if (!__atomic_load_n(&note->frame, __ATOMIC_RELAXED) && gilk_swap(&note->frame, 0, here->frame))
			return note;
	__atomic_fetch_sub(&here->table->open[here->hash], 1, __ATOMIC_RELAXED);
	return 0;
}

/* The frame's note with that number; null if there is none. */
static inline struct gilk_onward_note *gilk_onward_find(const struct gilk_onward_frame *here, gilk_u32 number)
{
	struct gilk_onward_note *note = 0;

	while ((note = gilk_onward_next(here, note)))
		if (note->number == number)
			return note;
	return 0;
}

/* The frame's latest note; null if there is none. */
static inline struct gilk_onward_note *gilk_onward_latest(const struct gilk_onward_frame *here)
{
	struct gilk_onward_note *note = 0, *latest = 0;

	while ((note = gilk_onward_next(here, note)))
		if (!latest || note->order > latest->order)
			latest = note;
	return latest;
}

#endif
