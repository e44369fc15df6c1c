/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls at copies of functions, such as inlined ones (lang/aspect/code/copies.py). Where a call begins at a copy its
 * arguments are kept, for the advice that runs where the call is left. It is known again by the number of the copy and
 * by the canonical frame address of the function that contains the copy.
 *
 * The thread's stack of advice has room for them at its end: from its last word but one downwards the number of calls,
 * and then the calls, the oldest first.
 */
#ifndef GILK_COPIES_H
#define GILK_COPIES_H

#include "../abi/gilk_abi.h"

#define GILK_COPY_ARGUMENTS 6
#define GILK_COPY_RESULT 48 /* offsets in the bytes of struct gilk_access, behind the arguments: splice/copy_entry.py */
#define GILK_COPY_FRAME 56

struct gilk_copy_call { /* targets/advised.py */
	gilk_u64 frame; /* the canonical frame address */
	gilk_u64 number; /* of the copy */
	const char *function;
	gilk_u64 on; /* aspects that were on: a bit for each */
	gilk_u64 argument[GILK_COPY_ARGUMENTS];
};

#pragma GCC visibility push(hidden)
/*
 * A call begins: room for it, of which `frame` and `number` are filled in; 0 if there is none, which counts as skipped.
 * Calls that must be over by now are dropped: those in frames below this one, and one of the same copy.
 */
struct gilk_copy_call *gilk_copy_enter(gilk_u64 frame, gilk_u64 number);

/*
 * A call is left, and is not under way any more. Returns it, or 0 if it began without advice; what it points to stays
 * until the next call begins.
 */
const struct gilk_copy_call *gilk_copy_leave(gilk_u64 frame, gilk_u64 number);
#pragma GCC visibility pop

#endif
