/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The stack of a thread as its unwind tables have it (runtime/shared/walk.h), for the C code of woven aspects that say
 * `walk` or `verify`. lang/aspect/code/walking.py includes this.
 *
 * The weaver adds to the tables while the process runs. A walk begins at the return address of the call whose advice
 * runs, or at the instruction that makes an access. Copies of the stack lie on the stack of advice.
 */
#ifndef GILK_WALK_H
#define GILK_WALK_H

#include "gilk_aspect.h"
#include "../runtime/shared/walk.h"

#define GILK_APART __attribute__((noinline, unused)) /* the copy of the stack needs room only meanwhile */
#define GILK_RBX 8 /* in `others` of struct gilk_activation_head */
#define GILK_RBP 9

struct gilk_walk {
	struct gw_walk walk; /* first: gw_prepare() finds the copy by it */
	gilk_u64 copy[GW_COPY / 8];
};

static inline int gw_prepare(struct gw_walk *w)
{
	w->copy.data = (const gilk_u8 *)((struct gilk_walk *)w)->copy;
	w->pid = host_pid(); /* not the weaver's number, which may be another one */
	return 1;
}

static inline void gilk_walk_begin(struct gilk_walk *of, gilk_u64 pc, gilk_u64 sp, gilk_u64 bp, gilk_u64 bx)
{
	struct gw_walk *w = &of->walk;

	w->regs = 0;
	w->pc = pc;
	w->sp = sp;
	w->bp = bp;
	w->bx = bx;
	w->slot = 0;
	w->copies = 0;
	w->edge = 0;
	w->ended = 0;
	w->exact = 1;
	w->page = gw_page(sp);
	w->copy = (struct gw_window){0, 0, 0};
	gw_open_tables(&w->tables, (char *)&gilk_private + gilk_private.tables, gilk_private.tables_size);
}

/* Begin in the caller of the call whose advice runs, at the return address. */
static inline void gilk_walk_from_call(struct gilk_walk *of)
{
	const struct gilk_activation_head *own = gilk_own_call();

	gilk_walk_begin(of, *own->rsp, (gilk_u64)own->rsp, own->others[GILK_RBP], own->others[GILK_RBX]);
	of->walk.slot = of->walk.sp;
	of->walk.sp += 8;
	of->walk.exact = 0;
}

/* Whether every outer function is found on the stack, from the innermost on: `sets` has the code of each. */
static inline int gilk_walk_finds(struct gilk_walk *of, const gilk_u64 *sets, unsigned count, int strict,
				  gilk_u64 *unwalked)
{
	unsigned at = 0, deep = 0;

	for (;;) {
		if (gilk_is_among(sets[at], of->walk.pc - !of->walk.exact)) {
			if (++at == count)
				return 1;
		} else if (strict) {
			return 0;
		}
		if (++deep > GW_DEEPEST || !gw_step(&of->walk)) {
			if (!of->walk.ended)
				gilk_add(unwalked, 1);
			return 0;
		}
	}
}

/*
 * The innermost call that is recorded as under way, from `one` on, although the stack does not have its return address
 * where it was at the entry; 0: there is none, or the walk did not come to the end (then that is counted).
 */
static inline const struct gilk_activation_head *gilk_walk_misses(struct gilk_walk *of,
								  const struct gilk_activation_head *one,
								  gilk_u64 *unwalked)
{
	unsigned deep = 0;

	for (;;) {
		while (one && (!one->caller || (of->walk.slot == (gilk_u64)one->rsp && of->walk.pc == one->caller)))
			one = one->previous;
		if (!one)
			return 0;
		if (++deep > GW_DEEPEST || !gw_step(&of->walk)) {
			if (of->walk.ended)
				return one;
			gilk_add(unwalked, 1);
			return 0;
		}
	}
}

GILK_APART static int gilk_call_is_within(const gilk_u64 *sets, unsigned count, int strict, gilk_u64 *unwalked)
{
	struct gilk_walk walk;

	gilk_walk_from_call(&walk);
	return gilk_walk_finds(&walk, sets, count, strict, unwalked);
}

GILK_APART static const struct gilk_activation_head *gilk_call_misses(gilk_u64 *unwalked)
{
	struct gilk_walk walk;

	gilk_walk_from_call(&walk);
	return gilk_walk_misses(&walk, gilk_own_call(), unwalked);
}

#ifdef GILK_VARIABLE_H
/* The program's registers at an access: host/access.S has put them into struct gilk_access and below it. */
static inline void gilk_walk_from_access(struct gilk_walk *of, const struct gilk_access *access)
{
	gilk_walk_begin(of, gilk_own_pc(), (gilk_u64)access + GILK_ACCESS_FRAME, access->rbp,
			*(const gilk_u64 *)((const char *)access - GILK_ACCESS_RBX));
}

GILK_APART static int gilk_access_is_within(const struct gilk_access *access, const gilk_u64 *sets, unsigned count,
					    int strict, gilk_u64 *unwalked)
{
	struct gilk_walk walk;

	gilk_walk_from_access(&walk, access);
	return gilk_walk_finds(&walk, sets, count, strict, unwalked);
}

GILK_APART static const struct gilk_activation_head *gilk_access_misses(const struct gilk_access *access,
									gilk_u64 *unwalked)
{
	struct gilk_walk walk;

	gilk_walk_from_access(&walk, access);
	return gilk_walk_misses(&walk, (const struct gilk_activation_head *)gilk_block_load(GILK_NEWEST), unwalked);
}
#endif

#endif
