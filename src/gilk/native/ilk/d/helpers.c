// SPDX-License-Identifier: GPL-2.0
/*
 * The helpers that checked code may call (lang/to_kernel/helpers.py): D's runtime, with offsets in the frame in place
 * of addresses.
 *
 * The code may pass any number: each call checks its offsets and sizes, and a bad one is an illegal operation of the
 * clause. Interrupts are off.
 */
#include "task.h"
#define GD_PROBES 128 /* costs of helpers count on it */
#define ILK_D_DEEPEST 63 /* frames that stackdepth counts; costs of helpers count on it */
#define ILK_D_DEEPEST_USER 255 /* frames that ustackdepth counts; costs of helpers count on it */
#define ILK_D_USERS (1ull << 47) /* addresses of processes */
#define ILK_D_PRESENT 65536 /* bytes that copyin() takes at the most; costs of helpers count on it */
#define GD_SPEC_AT_ONCE ILK_D_AT_ONCE /* costs of helpers count on it */

#include "../../abi/ilk_d_abi.h"
#include "../../abi/ilk_d_forms.h"
#include "../../runtime/d/deeds.h"
#include "../../runtime/d/program.h"
#include "files.h"
#include "helpers.h"
#include "packets.h"
#include "places.h"
#include "results.h"
#include "run.h"
#include "stacks.h"
#include "texts.h"

/* Prepare the context before any helper is called: a group may call helpers before its first clause begins. */
void ilk_d_prepare(struct ilk_run *run)
{
	gd_begin(&run->context, run->clauses->memory, &run->clauses->layout, &run->event);
}

/*
 * Note the address of a failed load of user memory, if the group can be run again: then it does nothing more, and
 * reports no fault. Helpers with lasting effects set `done`, after which a group is not run again.
 */
static bool loaded_all(struct ilk_run *run, bool loaded)
{
	const struct gd_context *ctx = &run->context;

	if (!loaded && run->waits && !run->done && ctx->fault == GD_FAULT_ADDRESS && ctx->address - 1 < ILK_D_USERS - 1)
		run->missing = ctx->address;
	return loaded;
}

#include "scratch.h"

/* The life of a clause. */

HELPER(begin)
{
	struct ilk_run *run = run_of(frame);

	gd_begin(&run->context, run->clauses->memory, &run->clauses->layout, &run->event);
	run->reserved = false;
	return !run->missing && (run->always || gd_active(&run->context));
}

/* End a clause. Its scratch memory belongs to the run, so none is released. */
static void end_clause(struct ilk_run *run)
{
	run->context.scratch = 0;
	gd_end(&run->context);
	run->reserved = false;
}

HELPER(end)
{
	end_clause(run_of(frame));
	return 0;
}

HELPER(fail)
{
	gd_fail(&run_of(frame)->context, a > GD_FAULT_NONE && a <= GD_FAULT_LIBRARY ? a : GD_FAULT_ILLEGAL, b);
	return 0;
}

HELPER(fault)
{
	struct ilk_run *run = run_of(frame);

	gd_discard(&run->context);
	end_clause(run);
	if (!run->missing) {
		run->done = true;
		gd_report(&run->context, a, b, 0);
	}
	return 0;
}

/* Built-in variables. */

HELPER(timestamp)
{
	return gd_timestamp(&run_of(frame)->context);
}

HELPER(walltimestamp)
{
	return gd_walltimestamp(&run_of(frame)->context);
}

HELPER(vtimestamp)
{
	return host_thread_time();
}

HELPER(identity)
{
	return a < ILK_D_IDENTITIES ? ilk_d_task_number(a) : 0;
}

HELPER(progenyof)
{
	return ilk_d_is_progeny(a);
}

HELPER(execname)
{
	char *to = at(run_of(frame), a, b);
	u64 size = b < ILK_D_NAME ? b : ILK_D_NAME;

	if (!to || !b)
		return 0;
	gd_put_string(to, ilk_d_task_name(), size);
	gd_zero(to + size, b - size);
	return 1;
}

HELPER(probe_text)
{
	struct ilk_run *run = run_of(frame);
	u64 name = run->event.probe * 4ull + (a & 3);
	char *to = at(run, b, c);

	if (!to || !c)
		return 0;
	gd_put_string(to, name < run->clauses->sizes.names ? run->clauses->constants + run->clauses->names[name] : "", c);
	return 1;
}

/* Variables. */

HELPER(load_dynamic)
{
	struct ilk_run *run = run_of(frame);
	const void *key = at(run, b, c);
	void *to = at(run, d, e);

	return key && to && gd_dynamic_load(&run->context, a, key, c, to, e);
}

HELPER(store_dynamic)
{
	struct ilk_run *run = run_of(frame);
	const void *key = at(run, b, c), *from = at(run, d, e);

	run->done = true;
	return key && from && gd_dynamic_store(&run->context, a, key, c, from, e);
}

HELPER(delete_dynamic)
{
	struct ilk_run *run = run_of(frame);
	const void *key = at(run, b, c);

	run->done = true;
	if (key)
		gd_dynamic_delete(&run->context, a, key, c);
	return 0;
}

HELPER(load_global)
{
	struct ilk_run *run = run_of(frame);
	void *to = at(run, b, c);

	if (!to || !is_in(run, a, c, run->clauses->layout.globals_size))
		return 0;
	gd_bcopy(to, run->clauses->memory + run->clauses->layout.globals + a, c);
	return 1;
}

HELPER(store_global)
{
	struct ilk_run *run = run_of(frame);
	const void *from = at(run, a, c);

	if (!from || !is_in(run, b, c, run->clauses->layout.globals_size))
		return 0;
	run->done = true;
	gd_bcopy(run->clauses->memory + run->clauses->layout.globals + b, from, c);
	return 1;
}

/* Strings. */

HELPER(constant)
{
	struct ilk_run *run = run_of(frame);
	u8 *to = at(run, c, d);

	if (!to || b > d || !is_in(run, a, b, run->clauses->sizes.constants))
		return 0;
	gd_bcopy(to, run->clauses->constants + a, b);
	gd_zero(to + b, d - b);
	return 1;
}

HELPER(compare)
{
	struct ilk_run *run = run_of(frame);
	const u8 *left = at(run, a, b), *right = at(run, c, d);
	u64 i;

	for (i = 0; left && right; i++) {
		u8 l = i < b ? left[i] : 0, r = i < d ? right[i] : 0;

		if (l != r)
			return l < r ? -1 : 1;
		if (!l)
			return 0;
	}
	return 0;
}

/* Memory that may not be mapped. */

HELPER(load)
{
	struct ilk_run *run = run_of(frame);
	void *to = at(run, a, c);

	return to && may_be_read(run, b, c) && loaded_all(run, gd_load(&run->context, to, b, c));
}

/* Copy a string. A string in scratch memory ends at the end of that memory at the latest. */
static bool copied_string(struct ilk_run *run, char *to, u64 from, u64 size)
{
	u64 room;

	if (!size || !is_scratch(run, from, &room))
		return loaded_all(run, gd_copyin_string(&run->context, to, from, size));
	if (!room)
		return gd_fail(&run->context, GD_FAULT_ADDRESS, from);
	room = room < size ? room : size - 1;
	gd_bcopy(to, (const void *)from, room);
	to[room] = 0;
	return true;
}

HELPER(copyin_string)
{
	struct ilk_run *run = run_of(frame);
	char *to = at(run, a, d);
	u64 end;

	if (!to || c > d || !copied_string(run, to, b, c))
		return 0;
	for (end = 0; end < d && to[end]; end++)
		GD_LOOP();
	gd_zero(to + end, d - end);
	return 1;
}

/* Whether all pages of the range are mapped; a fault if not. The bytes that are read are not kept. */
HELPER(present)
{
	struct ilk_run *run = run_of(frame);
	u8 seen;
	u64 from;

	if (b > ILK_D_PRESENT)
		return gd_fail(&run->context, GD_FAULT_SIZE, b);
	for (from = a; from - a < b; from = (from | (GILK_PAGE - 1)) + 1) {
		if (!loaded_all(run, gd_load(&run->context, &seen, from, 1)))
			return 0;
		GD_LOOP();
	}
	return !b || loaded_all(run, gd_load(&run->context, &seen, a + b - 1, 1));
}

/* Copy `c` bytes as a string. */
HELPER(copyin_text)
{
	struct ilk_run *run = run_of(frame);
	char *to = at(run, a, d);

	if (!to || !d)
		return 0;
	c = c < d ? c : d - 1;
	if (!may_be_read(run, b, c) || !loaded_all(run, gd_load(&run->context, to, b, c)))
		return 0;
	gd_zero(to + c, d - c);
	return 1;
}

/* Others. */

HELPER(zero)
{
	void *to = at(run_of(frame), a, b);

	if (to)
		gd_zero(to, b);
	return 0;
}

HELPER(copy)
{
	struct ilk_run *run = run_of(frame);
	const void *from = at(run, a, c);
	void *to = at(run, b, c);

	if (from && to)
		gd_bcopy(to, from, c);
	return 0;
}

/* The smallest number divided by -1 would be a trap, not a value. */
HELPER(divide)
{
	bool rest = c & 1;

	if (!b)
		return gd_fail(&run_of(frame)->context, GD_FAULT_DIVIDE, 0);
	if (!(c & 2))
		return rest ? a % b : a / b;
	if ((s64)b == -1)
		return rest ? 0 : -a;
	return rest ? (s64)a % (s64)b : (s64)a / (s64)b;
}

HELPER(raise)
{
	struct ilk_run *run = run_of(frame);

	run->done = true;
	return ilk_d_signal(run->clauses->deeds, a) || gd_fail(&run->context, GD_FAULT_ILLEGAL, a);
}

HELPER(rand)
{
	return gd_rand(&run_of(frame)->context);
}

void *const ilk_d_helpers[] = {
#define ILK_D_ENTRY_POINT(name, cost, per_word, sizes) d_##name,
	ILK_D_CALL_ROWS(ILK_D_ENTRY_POINT)
#undef ILK_D_ENTRY_POINT
};
