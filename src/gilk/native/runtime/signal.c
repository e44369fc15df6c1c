/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A signal that arrives in a patch is seen at the original address.
 *
 * gilk_signal_enter is an instrument at the entry of a handler,
 * gilk_signal_leave one at the restorer that the handler returns to. In
 * between the ucontext says where the thread would be without patches. A
 * handler may change that: then the thread goes where the handler says, into a
 * patch if the instruction there has been displaced. One that does not goes
 * back to where it was, or to where it was moved when code has changed
 * meanwhile (target/movement.py). That may happen at any instruction here: a
 * rip that is right as it is, is not written.
 */
#include "runtime.h"

#define RIP_IN_UCONTEXT (40 + 16 * 8) /* sys/ucontext.h: gregs[REG_RIP] */

/* What is written before is there before what is written behind: who stops the thread in between reads both. */
static inline void in_order(void)
{
	__asm__ volatile("" : : : "memory");
}

static struct gilk_signal *slots(void)
{
	char *block;

	__asm__ volatile("rdgsbase %0" : "=r"(block));
	return (struct gilk_signal *)(block + GILK_SIGNALS);
}

/* The last row at or below `address`, or null. */
static const struct gilk_row *floor_row(const struct gilk_row *row, gilk_u64 count, gilk_u64 address)
{
	gilk_u64 low = 0, high = count;

	while (low < high) {
		gilk_u64 middle = (low + high) / 2;

		if (row[middle].from <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &row[low - 1] : 0;
}

static const struct gilk_row *patch_rows(const struct gilk_places *places)
{
	return (const struct gilk_row *)(places + 1);
}

static struct gilk_signal *recall(gilk_u64 context)
{
	struct gilk_signal *slot = slots();
	int n;

	for (n = 0; n < GILK_SIGNAL_SLOTS; n++)
		if (slot[n].context == context)
			return &slot[n];
	return 0;
}

/* Also what a handler that was left by a jump has left behind, for the same place on the stack. */
static void forget(gilk_u64 context)
{
	struct gilk_signal *slot = recall(context);

	if (slot)
		slot->context = 0;
}

static void remember(gilk_u64 context, gilk_u64 actual, gilk_u64 shown)
{
	struct gilk_signal *slot = recall(0);

	if (!slot)
		slot = &slots()[slots()[0].reserved++ % GILK_SIGNAL_SLOTS];
	slot->actual = actual;
	slot->shown = shown;
	in_order();
	slot->context = context;
	in_order();
}

void gilk_signal_enter(const struct gilk_regs *regs, gilk_u32 iid)
{
	const struct gilk_places *places = gilk_params.places;
	gilk_u64 *rip = (gilk_u64 *)(regs->rdx + RIP_IN_UCONTEXT);
	const struct gilk_row *row;
	gilk_u64 was;

	(void)iid;
	if (!places || regs->rdx != regs->rsp + 8) /* called by the program itself, not by the kernel */
		return;
	forget(regs->rdx);
	was = *rip;
	row = floor_row(patch_rows(places), places->patches, was);
	if (row && row->to) {
		remember(regs->rdx, was, row->to);
		*rip = row->to;
	} else {
		remember(regs->rdx, was, was);
	}
}

void gilk_signal_leave(const struct gilk_regs *regs, gilk_u32 iid)
{
	const struct gilk_places *places = gilk_params.places;
	gilk_u64 *rip = (gilk_u64 *)(regs->rsp + RIP_IN_UCONTEXT);
	struct gilk_signal *kept = recall(regs->rsp);
	const struct gilk_row *row;
	int hidden;

	(void)iid;
	if (kept) {
		hidden = *rip == kept->shown;
		if (hidden && kept->actual != kept->shown)
			*rip = kept->actual;
		in_order();
		kept->context = 0;
		if (hidden)
			return;
	}
	if (!places)
		return;
	row = floor_row(patch_rows(places) + places->patches, places->displaced, *rip);
	if (row && row->from == *rip)
		*rip = row->to;
}
