/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* _Unwind_Backtrace: return addresses, canonical frame addresses and function starts of every frame. */
#include "check.h"

#include <unwind.h>

enum { DEPTH = 24 };

struct frame {
	uintptr_t ip, cfa, start;
};

struct walk {
	struct frame frame[DEPTH + 32];
	int count;
};

static struct frame expected[DEPTH];

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *argument)
{
	struct walk *walk = argument;
	struct frame *frame = &walk->frame[walk->count];

	if (walk->count == DEPTH + 32)
		return _URC_END_OF_STACK;
	frame->ip = _Unwind_GetIP(context);
	frame->cfa = _Unwind_GetCFA(context);
	frame->start = _Unwind_GetRegionStart(context);
	walk->count++;
	return _URC_NO_REASON;
}

NOINLINE int collect(void);
NOINLINE int collect(void)
{
	static struct walk walk;

	walk.count = 0;
	_Unwind_Backtrace(visit, &walk);
	CHECK(walk.count > DEPTH + 1, "only %d frames", walk.count);
	/* Frame i + 1 is recurse() at depth i from the bottom; its caller's ip is what it saw as return address. */
	for (int i = 0; i < DEPTH; i++) {
		struct frame *inner = &walk.frame[i + 1], *outer = &walk.frame[i + 2], *want = &expected[DEPTH - 1 - i];

		CHECK(inner->start == want->start, "frame %d starts at %#lx, not %#lx", i, inner->start, want->start);
		CHECK(outer->ip == want->ip, "frame %d returns to %#lx, not %#lx", i, outer->ip, want->ip);
		CHECK(outer->cfa > inner->cfa, "frame %d: the stack does not grow downwards", i);
	}
	return walk.count;
}

NOINLINE int recurse(int depth);
NOINLINE int recurse(int depth)
{
	expected[depth].ip = (uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0));
	expected[depth].start = (uintptr_t)recurse;
	int count = depth + 1 < DEPTH ? recurse(depth + 1) : collect();

	BARRIER();
	return count;
}

static void one_round(long amount)
{
	for (long i = 0; i < amount; i++)
		recurse(0);
}

int main(int argc, char **argv)
{
	return run_rounds(argc, argv, "unwind", 200, one_round);
}
