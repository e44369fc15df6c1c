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

/* Note that the call goes on elsewhere. */
static void leave(struct notes *notes, const struct ilk_program *program, u64 sp, const struct ilk_ended *call)
{
	struct gd_tail tail = { (u64)call->group << 32 | call->probe, call->at, call->start };

	if (gd_lets(READ_ONCE(((struct gd_control *)program->clauses.memory)->state), call->probe))
		gd_tail_note(&notes->context, sp, tail);
}

/* Take the calls that return here, the innermost first; returns how many there are. */
static u32 end(struct notes *notes, const struct ilk_program *program, u64 sp, struct ilk_ended *to)
{
	struct gd_tail tails[ILK_D_ENDED_MAX];
	u32 n, found = 0;

	for (n = gd_tails_take(&notes->context, sp, tails); n; n--) {
		u64 what = tails[n - 1].what;

		if (what >> 32 < program->clauses.sizes.groups)
			to[found++] = (struct ilk_ended){ what >> 32, (u32)what, tails[n - 1].at, tails[n - 1].start };
	}
	return found;
}

u32 ilk_d_follow(const struct ilk_program *program, u32 role, u64 sp, const struct ilk_ended *call, struct ilk_ended *to)
{
	struct notes notes;

	begin(&notes, program);
	switch (role) {
	case ILK_D_RETURNS:
		gd_tail_forget(&notes.context, sp, call->probe);
		break;
	case ILK_D_LEAVES:
		leave(&notes, program, sp, call);
		break;
	case ILK_D_ENDS:
		return end(&notes, program, sp, to);
	case ILK_D_ENTERS:
		gd_tails_enter(&notes.context, sp);
		break;
	default:
		gd_tails_pass(&notes.context, sp, role == ILK_D_PASSES);
	}
	return 0;
}
