/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers for scratch memory (alloca(), bcopy()), and for writes to the process's memory.
 *
 * Scratch memory belongs to the run, and has kernel addresses. A clause writes only to scratch memory that it has
 * allocated itself, and to no other memory of the kernel; of scratch memory it reads no more than it has allocated.
 */
#ifndef ILK_D_SCRATCH_H
#define ILK_D_SCRATCH_H

#include "../../runtime/d/deeds.h"
#include "places.h"

/* Whether the address lies in scratch memory; *room is how many bytes from there on the clause has allocated. */
static bool is_scratch(const struct ilk_run *run, u64 address, u64 *room)
{
	u64 from = address - (u64)run->scratch, used = run->context.scratch ? run->context.scratch_used : 0;

	*room = from < used ? used - from : 0;
	return from < sizeof(run->scratch);
}

/* Whether the range may be read. False: it exceeds the clause's scratch memory, and the clause has a fault. */
static bool may_be_read(struct ilk_run *run, u64 address, u64 size)
{
	u64 room;

	if (!is_scratch(run, address, &room) || (room && size <= room))
		return true;
	return gd_fail(&run->context, room ? GD_FAULT_SIZE : GD_FAULT_ADDRESS, room ? size : address);
}

/* The most bytes that a clause may allocate: scratchsize, or less if the run has less. */
static u64 most_scratch(const struct ilk_run *run)
{
	u64 asked = run->clauses->layout.scratch_size;

	return asked < sizeof(run->scratch) ? asked : sizeof(run->scratch);
}

/* Allocate scratch memory, cleared, since another program may have used it before. */
HELPER(alloca)
{
	struct ilk_run *run = run_of(frame);
	struct gd_context *ctx = &run->context;
	u64 room = most_scratch(run), used = ctx->scratch ? ctx->scratch_used : 0;

	if (a > room || gd_round8(a) > gd_round8(room) - used)
		return gd_fail(ctx, GD_FAULT_SCRATCH, 0);
	ctx->scratch = run->scratch;
	ctx->scratch_used = (u32)(used + gd_round8(a));
	gd_zero(run->scratch + used, gd_round8(a));
	return (u64)run->scratch + used;
}

/* Whether a store is allowed: it must lie in what the clause has allocated. */
static bool may_be_filled(struct ilk_run *run, u64 address, u64 size)
{
	u64 room;

	is_scratch(run, address, &room);
	return (room && size <= room) || (!size && run->context.scratch) || gd_fail(&run->context, GD_FAULT_ADDRESS, address);
}

/* The same for a copy, whose size is wrong if it begins there and ends behind it. */
static bool may_be_copied_to(struct ilk_run *run, u64 address, u64 size)
{
	u64 room;

	is_scratch(run, address, &room);
	if (size > sizeof(run->scratch) || (room && size > room))
		return gd_fail(&run->context, GD_FAULT_SIZE, size);
	return may_be_filled(run, address, size);
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

	return may_be_copied_to(run, a, c) && may_be_read(run, b, c) &&
	       loaded_all(run, gd_load(&run->context, (void *)a, b, c));
}

/* bcopy() of a string in the frame: bytes behind its end are zero. */
HELPER(bcopy_text)
{
	struct ilk_run *run = run_of(frame);
	const char *from = at(run, c, d);
	char *to = (char *)a;
	u64 i;

	if (!from || !may_be_copied_to(run, a, b))
		return 0;
	for (i = 0; i < b && i < d && from[i]; i++) {
		to[i] = from[i];
		GD_LOOP();
	}
	gd_zero(to + i, b - i);
	return 1;
}

/* The address of a variable, which may be read by it as other memory. */
HELPER(address)
{
	struct ilk_run *run = run_of(frame);

	if (!a)
		return (u64)at(run, b, c);
	if (!is_in(run, b, c, run->clauses->layout.globals_size))
		return 0;
	return (u64)(run->clauses->memory + run->clauses->layout.globals + b);
}

/* The same as loaded_all() for a store, which needs a page that can be written to. */
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

/* copyout() reads kernel memory, and writes to user memory only. */
HELPER(copyout)
{
	struct ilk_run *run = run_of(frame);

	if (c > sizeof(run->between))
		return gd_fail(&run->context, GD_FAULT_SIZE, c);
	return may_be_read(run, a, c) && loaded_all(run, gd_load(&run->context, run->between, a, c)) &&
	       stored_all(run, b, run->between, c);
}

/* copyoutstr(): the NUL is stored, too, if it is within the bytes that are asked for. */
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

/* Spin for so many ns. */
HELPER(chill)
{
	struct ilk_run *run = run_of(frame);

	run->done = true;
	return ((s64)a >= 0 && ilk_d_chill(a)) || gd_fail(&run->context, GD_FAULT_ILLEGAL, a);
}

#endif
