/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers about memory that a clause takes for itself, alloca(), and about writing the process's.
 *
 * Scratch memory is the run's, and addresses in it are the kernel's own. A clause writes to what it has itself taken, and to
 * nothing else of the kernel; it reads what it has taken, whatever else lies behind that.
 */
#ifndef ILK_D_SCRATCH_H
#define ILK_D_SCRATCH_H

#include "../../runtime/d/deeds.h"
#include "places.h"

/* How much the clause may look at from there on, of its scratch memory. False: the address is not in any. */
static bool is_scratch(const struct ilk_run *run, u64 address, u64 *room)
{
	u64 from = address - (u64)run->scratch, used = run->context.scratch ? run->context.scratch_used : 0;

	*room = from < used ? used - from : 0;
	return from < sizeof(run->scratch);
}

/* False: the address is of scratch memory, which does not reach so far; the clause has a fault. */
static bool may_be_read(struct ilk_run *run, u64 address, u64 size)
{
	u64 room;

	if (!is_scratch(run, address, &room) || (room && size <= room))
		return true;
	return gd_fail(&run->context, room ? GD_FAULT_SIZE : GD_FAULT_ADDRESS, room ? size : address);
}

/* At most as much as the program has asked for, and as there is. */
static u64 most_scratch(const struct ilk_run *run)
{
	u64 asked = run->clauses->layout.scratch_size;

	return asked < sizeof(run->scratch) ? asked : sizeof(run->scratch);
}

/* It is cleared: another program may have had it before. */
HELPER(alloca)
{
	struct ilk_run *run = run_of(frame);
	struct gd_context *ctx = &run->context;
	u64 room = most_scratch(run), used = ctx->scratch ? ctx->scratch_used : 0;

	if (a > room || gd_round8(a) > room - used)
		return gd_fail(ctx, GD_FAULT_SCRATCH, 0);
	ctx->scratch = run->scratch;
	ctx->scratch_used = (u32)(used + gd_round8(a));
	gd_zero(run->scratch + used, gd_round8(a));
	return (u64)run->scratch + used;
}

static bool may_be_filled(struct ilk_run *run, u64 address, u64 size)
{
	u64 room;

	if (size > sizeof(run->scratch))
		return gd_fail(&run->context, GD_FAULT_SIZE, size);
	is_scratch(run, address, &room);
	return (room && size <= room) || (!size && run->context.scratch) || gd_fail(&run->context, GD_FAULT_ADDRESS, address);
}

HELPER(assign)
{
	struct ilk_run *run = run_of(frame);
	const void *from = at(run, b, c);

	if (!from || !may_be_filled(run, a, c))
		return 0;
	gd_bcopy((void *)a, from, c);
	return 1;
}

HELPER(bcopy)
{
	struct ilk_run *run = run_of(frame);

	return may_be_filled(run, a, c) && may_be_read(run, b, c) &&
	       loaded_all(run, gd_load(&run->context, (void *)a, b, c));
}

/* Of a string in the frame: what is asked for behind its end is zero. */
HELPER(bcopy_text)
{
	struct ilk_run *run = run_of(frame);
	const char *from = at(run, c, d);
	char *to = (char *)a;
	u64 i;

	if (!from || !may_be_filled(run, a, b))
		return 0;
	for (i = 0; i < b && i < d && from[i]; i++) {
		to[i] = from[i];
		GD_LOOP();
	}
	gd_zero(to + i, b - i);
	return 1;
}

/* As loaded_all(), of a store: it needs a page that may be written. */
static bool stored_all(struct ilk_run *run, u64 address, const void *from, u64 size)
{
	bool stored = ilk_d_may_write(run->clauses->deeds) ? gd_store(&run->context, address, from, size) :
							     gd_fail(&run->context, GD_FAULT_ADDRESS, address);

	loaded_all(run, stored);
	if (run->missing)
		run->missing |= ILK_D_TO_WRITE;
	run->done = true;
	return stored;
}

/* Memory of the kernel's is read for it, but none is written. */
HELPER(copyout)
{
	struct ilk_run *run = run_of(frame);

	if (c > sizeof(run->between))
		return gd_fail(&run->context, GD_FAULT_SIZE, c);
	return may_be_read(run, a, c) && loaded_all(run, gd_load(&run->context, run->between, a, c)) &&
	       stored_all(run, b, run->between, c);
}

/* With its zero, if that is within as many bytes as are asked for. */
HELPER(copyout_text)
{
	struct ilk_run *run = run_of(frame);
	const char *from = at(run, a, b);
	u64 size = 0;

	if (!from || !b)
		return 0;
	while (size < b - 1 && from[size])
		size++;
	size = size + 1 < d ? size + 1 : d;
	return stored_all(run, c, from, size);
}

/* The processor does nothing else for so long, in ns. */
HELPER(chill)
{
	struct ilk_run *run = run_of(frame);

	run->done = true;
	return ((s64)a >= 0 && ilk_d_chill(a)) || gd_fail(&run->context, GD_FAULT_ILLEGAL, a);
}

#endif
