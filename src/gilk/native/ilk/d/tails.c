// SPDX-License-Identifier: GPL-2.0
/*
 * Calls that go on in another function (runtime/d/tails.h): a note at the jump, and the probe's firing at the return.
 *
 * Notes lie in the program's dynamic variables, which its code can write, too: what they say is checked. Interrupts are
 * off.
 */
#include <linux/build_bug.h>
#include <linux/smp.h>

#include "task.h"
#include "d.h"
#include "../../runtime/d/d.h"
#include "../../runtime/d/tails.h"

struct notes {
	struct gd_context context;
	struct gd_event event;
};

static void begin(struct notes *notes, const struct ilk_program *program)
{
	notes->event.thread = ilk_d_thread();
	notes->event.cpu = raw_smp_processor_id();
	gd_begin(&notes->context, program->clauses.memory, &program->clauses.layout, &notes->event);
}

static_assert(ILK_D_ENDED_MAX == GD_TAILS_MOST);

/* The call goes on elsewhere, and ends later. */
void ilk_d_call_leaves(const struct ilk_program *program, u64 sp, const struct ilk_ended *ends)
{
	struct notes notes;

	if (!gd_lets(READ_ONCE(((struct gd_control *)program->clauses.memory)->state), ends->probe))
		return;
	begin(&notes, program);
	gd_tail_note(&notes.context, sp,
		     (struct gd_tail){ (u64)ends->group << 32 | ends->probe, ends->at, ends->start });
}

/* The call has returned in its own function. */
void ilk_d_call_returned(const struct ilk_program *program, u64 sp, u32 probe)
{
	struct notes notes;

	begin(&notes, program);
	gd_tail_forget(&notes.context, sp, probe);
}

/* Control comes by an attachment whose role is ENTERS, PASSES or STAYS. */
void ilk_d_call_steps(const struct ilk_program *program, u64 sp, u32 role)
{
	struct notes notes;

	begin(&notes, program);
	if (role == ILK_D_ENTERS)
		gd_tails_enter(&notes.context, sp);
	else
		gd_tails_pass(&notes.context, sp, role == ILK_D_PASSES);
}

/* Take the calls that return here, the innermost first; returns how many there are. */
u32 ilk_d_calls_end(const struct ilk_program *program, u64 sp, struct ilk_ended *to)
{
	struct gd_tail tails[ILK_D_ENDED_MAX];
	struct notes notes;
	u32 n, found = 0;

	begin(&notes, program);
	for (n = gd_tails_take(&notes.context, sp, tails); n; n--) {
		u64 what = tails[n - 1].what;

		if (what >> 32 < program->clauses.sizes.groups)
			to[found++] = (struct ilk_ended){ what >> 32, (u32)what, tails[n - 1].at, tails[n - 1].start };
	}
	return found;
}
