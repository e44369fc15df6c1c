// SPDX-License-Identifier: GPL-2.0
/*
 * Timed calls that go on in another function (abi/gilk_onward.h): C functions that patches call by ilk_registers, in any
 * context. A frame is known by its stack pointer, by the task that runs, and by the client: clients see only notes of
 * their own, and none of a client that had the same rings before.
 *
 * No function of the kernel is left but by its return, so entries are not looked at. Only a task that ends within a call
 * leaves notes: they go when another task makes one at the same place of that stack.
 *
 * Ownership: the table is the driver's. A client's units, which write to its rings, are out before the rings go.
 */
#include <linux/sched.h>

#include "ilk.h"
#include "../runtime/shared/onward.h"

#define IIDS 24 /* bits of a number below the client's set */
#define EVEN_SPREAD 0x9e3779b97f4a7c15ull

struct gilk_onward ilk_onward; /* generated code looks at `open` */

/* A client has got the rings of a set: notes of the client before are not its own. */
void ilk_onward_begin(u32 set)
{
	ilk_onward.serial[set]++;
}

static u64 key_of(u32 set)
{
	return (current->start_time + current->pid) * EVEN_SPREAD + ((u64)ilk_onward.serial[set] << 8) + set;
}

static struct gilk_onward_frame frame_of(const struct gilk_regs *regs, u32 number)
{
	return gilk_onward_frame(&ilk_onward, regs->rsp, key_of(number >> IIDS));
}

/* Drop what another task has left at this place of the stack. */
static void drop_dead(const struct gilk_onward_frame *here, u32 set)
{
	struct gilk_onward_note *note = &here->table->note[here->hash];
	struct gilk_onward_frame there = *here;
	u32 n;

	for (n = 0; n < GILK_ONWARD_WINDOW; n++, note++) {
		there.frame = READ_ONCE(note->frame);
		if (there.frame && there.frame != here->frame && note->rsp == here->rsp &&
		    note->number >> IIDS == set)
			gilk_onward_free(&there, note);
	}
}

static struct gilk_onward_note *claim(const struct gilk_onward_frame *here, u32 set)
{
	struct gilk_onward_note *note;
	u32 lost = 0;

	drop_dead(here, set);
	note = gilk_onward_claim(here, &lost);
	if (!note || lost)
		ilk_lose_record(ILK_CLASSES * set);
	return note;
}

/* In front of a jump of a timed function. */
void ilk_onward_jumps(const struct gilk_regs *regs, u32 number)
{
	struct gilk_onward_frame here = frame_of(regs, number);
	struct gilk_onward_note *note = gilk_onward_find(&here, number);

	if (!note)
		note = claim(&here, number >> IIDS);
	if (note)
		gilk_onward_fill(&here, note, number, 0, rdtsc());
}

/* At the entry of a timed function that its own call may come back to. */
void ilk_onward_begins(const struct gilk_regs *regs, u32 number)
{
	struct gilk_onward_frame here = frame_of(regs, number);
	struct gilk_onward_note *note = gilk_onward_find(&here, number);

	if (note)
		gilk_onward_free(&here, note);
	else
		ilk_stamp(number >> IIDS, number & ((1u << IIDS) - 1), regs->rsp);
}

/* In front of a return; of the number, only the set counts. The record of an end has the number after the function's. */
void ilk_onward_returns(const struct gilk_regs *regs, u32 number)
{
	struct gilk_onward_frame here = frame_of(regs, number);
	struct gilk_onward_note *note;

	while ((note = gilk_onward_latest(&here))) {
		u32 iid = (note->number & ((1u << IIDS) - 1)) + 1;

		if (gilk_onward_free(&here, note))
			ilk_stamp(number >> IIDS, iid, regs->rsp);
	}
}
