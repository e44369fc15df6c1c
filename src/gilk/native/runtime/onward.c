/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Instruments of calls whose time is measured, and which go on in other functions (abi/gilk_onward.h): where they jump,
 * where the functions begin to which the jumps lead, and where those return.
 *
 * A frame may be left without a return (longjmp, an exception): its notes stay. So each jump marks the notes of its
 * frame as passed, and each entry takes that mark away; an entry without it is that of another call, and drops the notes.
 *
 * Ownership: the notes belong to the calls in the table that gilk_params points at. The memory of a client may be given
 * back while a return still looks at its number: `claiming` of the control page keeps it meanwhile.
 */
#include "runtime.h"
#include "shared/onward.h"

static struct gilk_onward_frame frame_of(const struct gilk_regs *regs)
{
	return gilk_onward_frame(gilk_params.onward, regs->rsp, gilk_key);
}

static gilk_u32 serial_of(gilk_u32 number)
{
	return __atomic_load_n(&gilk_params.onward->serial[(number >> GILK_IID_BITS) % GILK_ONWARD_CLIENTS],
			       __ATOMIC_ACQUIRE);
}

/* Keep the memory of all clients until end_look(). Returns the control page of one; null if it is not there any more. */
static struct gilk_control *begin_look(gilk_u32 number, gilk_u32 serial)
{
	__atomic_fetch_add(&gilk_params.control->claiming, 1, __ATOMIC_SEQ_CST);
	return serial_of(number) == serial ? client_control(number) : 0;
}

static void end_look(void)
{
	__atomic_fetch_sub(&gilk_params.control->claiming, 1, __ATOMIC_SEQ_CST);
}

static void write_stamp(const struct gilk_control *control, gilk_u64 rsp, gilk_u32 iid)
{
	gilk_u64 at = gilk_reserve_in(control, 0, sizeof(struct gilk_record_stamp));

	if (!at)
		return;
	gilk_block_store(at, gilk_time());
	gilk_block_store32(at + 12, (gilk_u32)rsp);
	gilk_block_store32(at + 8, iid);
}

/* The number of the record of a call's end is the next one to that of its beginning, which a function is known by. */
static void record(gilk_u32 number, gilk_u32 serial, gilk_u64 rsp, gilk_u32 ends)
{
	struct gilk_control *control = begin_look(number, serial);

	if (control)
		write_stamp(control, rsp, (number & ((1U << GILK_IID_BITS) - 1)) + ends);
	end_look();
}

/* A note that found no room is a record that will not be made. */
static void count_drop(gilk_u32 number)
{
	const struct gilk_control *control = begin_look(number, serial_of(number));

	if (control)
		gilk_block_increment(gilk_block_load(GILK_PARTS_AT + 8UL * control->self) + GILK_RING(0, GILK_DROPS));
	end_look();
}

/* A note may be overwritten while it is looked at: then it is another frame's, with another stack pointer. */
static void pass_on(const struct gilk_onward_frame *here)
{
	struct gilk_onward_note *note = 0;

	while ((note = gilk_onward_next(here, note)))
		gilk_swap(&note->rsp, here->rsp, here->rsp | 1);
}

static struct gilk_onward_note *claim(const struct gilk_onward_frame *here, gilk_u32 number)
{
	gilk_u32 lost = 0;
	struct gilk_onward_note *note = gilk_onward_claim(here, &lost);

	if (!note)
		lost = number;
	if (lost)
		count_drop(lost);
	return note;
}

/* In front of a jump of a function whose time is measured; an earlier round of the call may have made the note. */
void gilk_onward_jumps(const struct gilk_regs *regs, gilk_u32 number)
{
	struct gilk_onward_frame here = frame_of(regs);
	struct gilk_onward_note *note = gilk_onward_find(&here, number);

	if (!note)
		note = claim(&here, number);
	if (note)
		gilk_onward_fill(&here, note, number, serial_of(number), host_clock());
	pass_on(&here);
}

/* In front of a jump of another function. */
void gilk_onward_passes(const struct gilk_regs *regs, gilk_u32 number)
{
	struct gilk_onward_frame here = frame_of(regs);

	(void)number;
	pass_on(&here);
}

/* At an entry. */
void gilk_onward_enters(const struct gilk_regs *regs, gilk_u32 number)
{
	struct gilk_onward_frame here = frame_of(regs);
	struct gilk_onward_note *note = 0;

	(void)number;
	while ((note = gilk_onward_next(&here, note)))
		if (!gilk_swap(&note->rsp, here.rsp | 1, here.rsp))
			gilk_onward_free(&here, note);
}

/*
 * At the entry of a function that may be reached from itself, behind gilk_onward_enters: a call that comes back to it is
 * still the same call, and has its record already.
 */
void gilk_onward_begins(const struct gilk_regs *regs, gilk_u32 number)
{
	struct gilk_onward_frame here = frame_of(regs);
	struct gilk_onward_note *note = gilk_onward_find(&here, number);

	if (note)
		gilk_onward_free(&here, note);
	else
		record(number, serial_of(number), regs->rsp, 0);
}

/* In front of a return. */
void gilk_onward_returns(const struct gilk_regs *regs, gilk_u32 number)
{
	struct gilk_onward_frame here = frame_of(regs);
	struct gilk_onward_note *note;

	(void)number;
	while ((note = gilk_onward_latest(&here))) {
		gilk_u32 due = note->number, serial = note->serial;

		if (gilk_onward_free(&here, note))
			record(due, serial, regs->rsp, 1);
	}
}
