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
	gilk_u64 rsp;
	gilk_u32 hash;
};

static inline struct gilk_onward_frame gilk_onward_frame(struct gilk_onward *table, gilk_u64 rsp, gilk_u64 key)
{
	struct gilk_onward_frame here = {table, rsp + key, rsp, gilk_onward_hash(rsp)};

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

static inline void gilk_onward_count(const struct gilk_onward_frame *here, gilk_u64 rsp, int more)
{
	__atomic_fetch_add(&here->table->open[gilk_onward_hash(rsp)], (gilk_u8)more, __ATOMIC_RELAXED);
}

/* Give the place of a note of the frame up. Returns 0 if somebody has taken it already. */
static inline int gilk_onward_free(const struct gilk_onward_frame *here, struct gilk_onward_note *note)
{
	note->order = 0;
	if (!gilk_swap(&note->frame, here->frame, 0))
		return 0;
	gilk_onward_count(here, here->rsp, -1);
	return 1;
}

/* The oldest note of the window that belongs to another frame; null if there is none. */
static inline struct gilk_onward_note *gilk_onward_oldest(const struct gilk_onward_frame *here)
{
	struct gilk_onward_note *note = &here->table->note[here->hash], *oldest = 0;
	int n;

	for (n = 0; n < GILK_ONWARD_WINDOW; n++, note++)
		if (note->frame != here->frame && note->order && (!oldest || note->order < oldest->order))
			oldest = note;
	return oldest;
}

/* Take the place of the oldest note of another frame. Returns the place, or null; `lost` gets its number. */
static inline struct gilk_onward_note *gilk_onward_overwrite(const struct gilk_onward_frame *here, gilk_u32 *lost)
{
	struct gilk_onward_note *note = gilk_onward_oldest(here);
	gilk_u64 order = note ? __atomic_load_n(&note->order, __ATOMIC_ACQUIRE) : 0, frame, rsp;
	gilk_u32 number;

	if (!order)
		return 0;
	frame = __atomic_load_n(&note->frame, __ATOMIC_RELAXED);
	rsp = note->rsp & ~1UL;
	number = note->number;
	if (!frame || !gilk_swap(&note->order, order, 0) || !gilk_swap(&note->frame, frame, here->frame))
		return 0;
	gilk_onward_count(here, rsp, -1);
	*lost = number;
	return note;
}

/*
 * A place for a note of the frame; null if there is no room. `lost` gets the number of a note that had to go for it, or
 * stays.
 */
static inline struct gilk_onward_note *gilk_onward_claim(const struct gilk_onward_frame *here, gilk_u32 *lost)
{
	struct gilk_onward_note *note = &here->table->note[here->hash];
	int n;

	gilk_onward_count(here, here->rsp, 1);
	for (n = 0; n < GILK_ONWARD_WINDOW; n++, note++)
		if (!__atomic_load_n(&note->frame, __ATOMIC_RELAXED) && gilk_swap(&note->frame, 0, here->frame))
			return note;
	note = gilk_onward_overwrite(here, lost);
	if (!note)
		gilk_onward_count(here, here->rsp, -1);
	return note;
}

/* Fill a note in; from then on it counts. */
static inline void gilk_onward_fill(const struct gilk_onward_frame *here, struct gilk_onward_note *note,
				    gilk_u32 number, gilk_u32 serial, gilk_u64 order)
{
	note->order = 0;
	__asm__ volatile("" : : : "memory");
	note->rsp = here->rsp;
	note->number = number;
	note->serial = serial;
	__atomic_store_n(&note->order, order, __ATOMIC_RELEASE);
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
