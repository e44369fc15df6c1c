/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Signal handlers see the original state of a thread that was interrupted in a patch.
 *
 * gilk_signal_enter is an instrument at the entry of a handler, gilk_signal_leave one at the restorer that the handler
 * returns to. In between, the ucontext has the address at which the thread would be without patches, and the registers
 * that it would have there (whole_state.c). Where these are not known, it has those of the patch. If the handler
 * changes that address, the thread continues there, or in a patch if the instruction there is displaced. If it does
 * not, the thread goes back to where it was interrupted, or to where it was moved when code has changed meanwhile
 * (targets/movement.py), or, if the instruction there has been displaced meanwhile, to that patch. The code may change
 * at any instruction of these functions, so they do not write a rip that is right already.
 *
 * gilk_signal_enter_go is for handlers of the Go runtime, which suspends a goroutine at the instruction that a signal
 * interrupts: it pushes the address that it has seen as a return address, and later resumes there with the registers as
 * they are. So it is shown an original address only where all registers are the original ones too. Elsewhere it sees
 * the address in the patch, which it does not recognize as Go code, and it tries again later (isAsyncSafePoint,
 * runtime/preempt.go).
 */
#include "context_words.h"
#include "places.h"
#include "whole_state.h"

#define CODE_IN_SIGINFO 8
#define FAULTS (1u << 4 | 1u << 7 | 1u << 8 | 1u << 11) /* SIGILL, SIGBUS, SIGFPE, SIGSEGV */

static gilk_u64 *rip_of(gilk_u64 context)
{
	return gilk_context_word(context, GILK_RIP_INDEX);
}

static gilk_u64 *rsp_of(gilk_u64 context)
{
	return gilk_context_word(context, GILK_RSP_INDEX);
}

static struct gilk_note *note_in(gilk_u64 context)
{
	return (struct gilk_note *)(context + GILK_NOTE);
}

static void count_notes(long more)
{
	__atomic_fetch_add(&gilk_params.control->noted, (gilk_u64)more, __ATOMIC_RELAXED);
}

/*
 * Forget the note of a handler that was left by a jump: it is still on the stack, but does not belong to this delivery.
 */
static void forget(gilk_u64 context)
{
	struct gilk_note *note = note_in(context);

	if (note->magic == GILK_NOTE_MAGIC) {
		note->magic = 0;
		count_notes(-1);
	}
	in_order();
}

static void remember(gilk_u64 context, gilk_u64 actual, gilk_u64 shown, gilk_u64 frame)
{
	struct gilk_note *note = note_in(context);

	note->actual = actual;
	note->shown = shown;
	note->rsp = *rsp_of(context);
	note->frame = frame;
	count_notes(1);
	in_order();
	note->magic = GILK_NOTE_MAGIC;
	in_order();
}

/* The address that stands for `was`, whose row is `row`, in the original code; `was` itself if none does. */
static gilk_u64 original_of(struct gilk_row row, gilk_u64 was)
{
	return row.to && row.to != GILK_ROW_APART ? row.to & ~GILK_ROW_AFTER : was;
}

static void show(gilk_u64 context, struct gilk_row row)
{
	gilk_u64 *rip = rip_of(context);
	gilk_u64 was = *rip, original = original_of(row, was);

	remember(context, was, original, 0);
	if (original != was)
		*rip = original;
}

/* The row of the patch in which the context's thread was interrupted. */
static struct gilk_row row_in(gilk_u64 context)
{
	return gilk_row_of_patch(*rip_of(context));
}

/* Show the original state of a thread that was interrupted amid a patch, and was at an address with the row `row`. */
static void show_amid(gilk_u64 context, struct gilk_row row)
{
	struct gilk_note *note = note_in(context);
	struct gilk_whole whole = {original_of(row, *rip_of(context)), 0};

	remember(context, *rip_of(context), *rip_of(context), GILK_FRAME_UNDER_WAY);
	gilk_restore_rest(context);
	row = row_in(context);
	if (gilk_is_place(row, *rip_of(context)))
		whole.rip = original_of(row, 0);
	else if (gilk_find_whole(context, &whole))
		gilk_show_whole(context, whole.frame);
	note->actual = *rip_of(context);
	note->shown = whole.rip;
	note->rsp = *rsp_of(context);
	in_order();
	*rip_of(context) = whole.rip;
	in_order();
	note->frame = whole.frame;
	in_order();
}

/* Whether the kernel has called the handler, and not the program itself. */
static int is_delivery(const struct gilk_regs *regs)
{
	return gilk_params.places && regs->rdx == regs->rsp + 8;
}

void gilk_signal_enter(const struct gilk_regs *regs, gilk_u32 iid)
{
	struct gilk_row row;

	(void)iid;
	if (!is_delivery(regs))
		return;
	forget(regs->rdx);
	row = row_in(regs->rdx);
	if (!row.to || gilk_is_place(row, *rip_of(regs->rdx)))
		show(regs->rdx, row);
	else
		show_amid(regs->rdx, row);
}

/*
 * Whether the signal is a fault of the instruction itself; displaced instructions run in a patch with the original
 * registers.
 */
static int is_fault(const struct gilk_regs *regs)
{
	int code = *(const int *)(regs->rsi + CODE_IN_SIGINFO);

	return code > 0 && regs->rdi < 32 && FAULTS >> regs->rdi & 1;
}

static int is_whole(struct gilk_row row, gilk_u64 rip)
{
	return gilk_is_place(row, rip) && !(row.to & GILK_ROW_AFTER);
}

void gilk_signal_enter_go(const struct gilk_regs *regs, gilk_u32 iid)
{
	struct gilk_row row;

	(void)iid;
	if (!is_delivery(regs))
		return;
	forget(regs->rdx);
	row = row_in(regs->rdx);
	if (is_fault(regs) || is_whole(row, *rip_of(regs->rdx)))
		show(regs->rdx, row);
}

/* Whether the handler has not changed the address that it was shown. */
static int is_unchanged(const struct gilk_note *note, gilk_u64 context)
{
	return *rip_of(context) == note->shown && *rsp_of(context) == note->rsp;
}

/* Whether the thread goes on in the patch that the note says; if not, it goes on where the handler has it go on. */
static int go_on_by_note(gilk_u64 context)
{
	struct gilk_note *note = note_in(context);
	int led = is_unchanged(note, context) && note->actual != note->shown;
	gilk_u64 frame = note->frame;

	if (led && frame) {
		note->frame = frame | GILK_FRAME_UNDER_WAY;
		in_order();
		gilk_hide_whole(context, frame);
	}
	if (led)
		*rip_of(context) = note->actual;
	in_order();
	note->magic = 0;
	count_notes(-1);
	return led;
}

void gilk_signal_leave(const struct gilk_regs *regs, gilk_u32 iid)
{
	gilk_u64 *rip = rip_of(regs->rsp);
	struct gilk_row row;

	(void)iid;
	if (note_in(regs->rsp)->magic == GILK_NOTE_MAGIC && go_on_by_note(regs->rsp))
		return;
	if (!gilk_params.places)
		return;
	row = gilk_row_of_displaced(*rip);
	if (row.to && row.from == *rip)
		*rip = row.to;
}
