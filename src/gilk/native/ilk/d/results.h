/* SPDX-License-Identifier: GPL-2.0 */
/* Helpers by which a clause gives results: aggregations, records, speculations, the program's end. */
#ifndef ILK_D_RESULTS_H
#define ILK_D_RESULTS_H

#include "../../runtime/d/deeds.h"
#include "../../runtime/d/program.h"
#include "places.h"
#include "run.h"

/* Aggregations. */

static void add(struct gd_context *ctx, const struct ilk_clauses *p, const struct ilk_d_aggregation *row, u32 number,
		const void *key, s64 value, s64 weight)
{
	switch ((enum ilk_d_function)row->function) {
	case ILK_D_COUNT:
		return gd_count(ctx, number, key, row->key_size);
	case ILK_D_SUM:
		return gd_sum(ctx, number, key, row->key_size, value);
	case ILK_D_MIN:
		return gd_min(ctx, number, key, row->key_size, value);
	case ILK_D_MAX:
		return gd_max(ctx, number, key, row->key_size, value);
	case ILK_D_AVG:
		return gd_avg(ctx, number, key, row->key_size, value);
	case ILK_D_STDDEV:
		return gd_stddev(ctx, number, key, row->key_size, value);
	case ILK_D_QUANTIZE:
		return gd_quantize(ctx, number, key, row->key_size, value, weight);
	case ILK_D_LQUANTIZE:
		return gd_lquantize(ctx, number, key, row->key_size, value, row->low, row->high, row->step, weight);
	case ILK_D_LLQUANTIZE:
		return gd_llquantize(ctx, number, key, row->key_size, value, p->edges + row->edge, row->edges, weight);
	case ILK_D_FUNCTIONS:
		break;
	}
}

HELPER(aggregate)
{
	struct ilk_run *run = run_of(frame);
	const struct ilk_clauses *p = run->clauses;
	const struct ilk_d_aggregation *row;
	const void *key;

	if (!is_in(run, a, 1, p->sizes.rows))
		return 0;
	row = &p->rows[a];
	key = at(run, b, row->key_size);
	run->done = true;
	if (key)
		add(&run->context, p, row, a + 1, key, c, d);
	return 0;
}

/* Records. The room is reserved first, so that nothing is computed where there is no room for it. */

HELPER(reserve)
{
	struct ilk_run *run = run_of(frame);

	if (run->reserved || b > run->clauses->sizes.frame || !gd_reserve(&run->context, a, b))
		return 0;
	run->reserved = true;
	run->room = b;
	return 1;
}

HELPER(commit)
{
	struct ilk_run *run = run_of(frame);
	const void *from = at(run, a, b);

	if (!run->reserved || !from || b != run->room)
		return 0;
	run->done = true;
	gd_bcopy(run->context.data, from, b);
	gd_commit(&run->context);
	run->reserved = false;
	return 1;
}

/* Speculations. */

HELPER(speculation)
{
	struct ilk_run *run = run_of(frame);

	run->done = true;
	return gd_speculation(&run->context);
}

HELPER(speculate)
{
	struct ilk_run *run = run_of(frame);

	run->done = true;
	return gd_speculate(&run->context, a);
}

HELPER(commit_speculation)
{
	struct ilk_run *run = run_of(frame);

	run->done = true;
	gd_commit_speculation(&run->context, a);
	return !run->context.fault;
}

HELPER(discard_speculation)
{
	struct ilk_run *run = run_of(frame);

	run->done = true;
	gd_discard_speculation(&run->context, a);
	return !run->context.fault;
}

bool ilk_d_settle_one(const struct ilk_clauses *clauses, u32 cpu, u64 id, u64 *at)
{
	struct gd_event event = { .cpu = cpu };
	struct gd_context context = { .memory = clauses->memory, .layout = &clauses->layout, .event = &event };

	return gd_settle_one(&context, id, at);
}

HELPER(exit)
{
	struct ilk_run *run = run_of(frame);

	run->done = true;
	gd_exit(&run->context, a);
	return 0;
}

#endif
