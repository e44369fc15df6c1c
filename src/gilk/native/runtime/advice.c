/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Advice: find out which activations belong to calls that still go on. host/advice.S calls this where the stack pointer
 * alone does not tell.
 *
 * If a call begins on the same stack at or above the place where an older call began, the older one is over. A call on
 * another stack shows nothing. So the functions here ask where the thread's alternate signal stack lies.
 */
#include "advice.h"

_Static_assert(__builtin_offsetof(struct gilk_block, advising) == 200, "host/advice.S");
_Static_assert(__builtin_offsetof(struct gilk_activation, kept) == 56, "host/advice.S, include/gilk_calls.h");
_Static_assert(__builtin_offsetof(struct gilk_activation, reg) == 64, "host/advice.S");
_Static_assert(__builtin_offsetof(struct gilk_activation, passed) == 208, "host/advice.S");
_Static_assert(__builtin_offsetof(struct gilk_activation, again) == 216, "host/advice.S");
_Static_assert(__builtin_offsetof(struct gilk_activation, frame) == 224, "host/advice.S, include/gilk_aspect.h");
_Static_assert(__builtin_offsetof(struct gilk_activation, caller) == 232, "host/advice.S");
_Static_assert(__builtin_offsetof(struct gilk_activation, key) == 240, "host/advice.S");
_Static_assert(sizeof(struct gilk_activation) == 248, "host/advice.S");
_Static_assert(__builtin_offsetof(struct gilk_advice, vectors) == 22, "host/advice.S");
_Static_assert(__builtin_offsetof(struct gilk_advice, number) == 24, "include/gilk_calls.h");

static int is_on(const struct host_stack *stack, gilk_u64 address)
{
	return !(stack->flags & HOST_NO_STACK) && address - stack->start < stack->size;
}

static void set_newest(struct gilk_advising *state, struct gilk_activation *activation)
{
	state->newest = (gilk_u64)activation;
	state->shown = activation ? activation->shown : GILK_NO_ACTIVATION;
}

static void drop_newest(struct gilk_advising *state)
{
	struct gilk_activation *activation = (struct gilk_activation *)state->newest;

	set_newest(state, activation->previous);
	state->next = activation->before;
	state->dropped++;
}

int gilk_advice_is_over(const struct host_stack *other, gilk_u64 older, gilk_u64 rsp)
{
	if (is_on(other, older) == is_on(other, rsp))
		return older <= rsp;
	return is_on(other, older);
}

/* Whether the call of `activation` goes on in the function that is entered at `rsp`, because it has jumped there. */
static int takes_over(struct gilk_activation *activation, gilk_u64 rsp)
{
	if (!activation->passed || activation->rsp != rsp)
		return 0;
	activation->passed = 0;
	return 1;
}

void gilk_advice_prune(gilk_u64 rsp)
{
	struct gilk_advising *state = &host_block()->advising;
	struct host_stack other;

	if (state->newest && takes_over((struct gilk_activation *)state->newest, rsp))
		return; /* on any stack: asking for the alternate stack would take a system call */
	host_other_stack(&other);
	while (state->newest && gilk_advice_is_over(&other, ((struct gilk_activation *)state->newest)->rsp, rsp)) {
		if (takes_over((struct gilk_activation *)state->newest, rsp))
			return;
		drop_newest(state);
	}
}

/* Whether this is an activation: the constants of an access lie elsewhere. */
static int is_call(const struct gilk_advising *state, gilk_u64 running)
{
	return state->high - running < GILK_ADVICE_STACK;
}

/* Whether the return address of the running advice's call has been overwritten. */
static int is_written_over(const struct gilk_advising *state)
{
	const struct gilk_activation *running = (const struct gilk_activation *)state->running;

	return is_call(state, state->running) && host_is_readable(state->left) &&
	       *(const volatile gilk_u64 *)state->left != running->caller;
}

gilk_u32 gilk_advice_is_inside(gilk_u64 rsp)
{
	struct gilk_advising *state = &host_block()->advising;
	int brief = is_call(state, state->running) && state->running != state->newest;
	struct host_stack other;

	host_other_stack(&other);
	if (is_on(&other, rsp))
		return 1;
	if (rsp < state->left) {
		if (!is_written_over(state))
			return 1;
		if (!brief)
			drop_newest(state); /* no stack pointer says that it is over */
	}
	state->dropped += brief;
	state->running = 0;
	return 0;
}

void gilk_advice_prune_reached(gilk_u64 rsp)
{
	struct gilk_advising *state = &host_block()->advising;

	if (state->running && (state->high - rsp < GILK_ADVICE_STACK || gilk_advice_is_inside(rsp)))
		return;
	gilk_advice_prune(rsp);
}

/* Mark, and do not drop: longjmp() may run on the stack of advice itself, where new advice would then overwrite it. */
void gilk_advice_unwound(gilk_u64 to)
{
	struct gilk_advising *state = &host_block()->advising;
	struct gilk_activation *one;
	struct host_stack other;

	if (state->high - to < GILK_ADVICE_STACK)
		return; /* from advice to advice: no call is left that has any */
	for (one = (struct gilk_activation *)state->newest; one && !one->caller; one = one->previous)
		; /* these are marked already: in most programs that jump often, all are */
	if (!one)
		return;
	host_other_stack(&other);
	for (; one; one = one->previous) {
		if (!gilk_advice_is_over(&other, one->rsp, to - 8))
			continue; /* the calls of a signal handler on another stack may be over, and later ones not */
		one->frame = 0;
		one->caller = 0;
	}
}

void gilk_advice_longjmp(gilk_u64 to, gilk_u64 raw)
{
	gilk_advice_unwound(to >> 47 ? raw : to); /* an address of a process has 47 bits; an encoded one has more */
}

static int has(const int *list, const struct gilk_advice *advice)
{
	for (; *list; list++)
		if (*(const struct gilk_advice **)((const char *)(list + 1) + *list) == advice)
			return 1;
	return 0;
}

struct gilk_activation *gilk_advice_find(gilk_u64 rsp, const int *list)
{
	struct gilk_advising *state = &host_block()->advising;
	struct gilk_activation *found = (struct gilk_activation *)state->newest;

	while (found && (found->rsp != rsp || !has(list, found->advice)))
		found = found->previous;
	while (found && state->newest != (gilk_u64)found)
		drop_newest(state);
	return found;
}

static void set_passed(gilk_u64 rsp, const int *list, gilk_u64 passed)
{
	struct gilk_activation *found = gilk_advice_find(rsp, list);

	if (found)
		found->passed = passed;
}

void gilk_advice_pass_on(gilk_u64 rsp, const int *list)
{
	set_passed(rsp, list, 1);
}

void gilk_advice_keep(gilk_u64 rsp, const int *list)
{
	set_passed(rsp, list, 0);
}
