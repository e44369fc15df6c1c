/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Proves that code may run in the kernel, from its bytes alone:
 *
 *	memory	it reads and writes registers and its frame, and nothing else
 *	control	it leads forward, to instructions that were decoded, calls helpers, and leaves by its exit
 *	time	no way through it costs more than it was given
 *	deeds	it changes processes only if it may
 *
 * Need: the types of the including file: u8, u32, u64, bool. No function is called, no memory but the caller's is
 * touched: the driver includes this, and so do programs of the tests.
 *
 * Code consists of the forms in ilk_d_forms.h only. It is read once, from the first byte to the last. Branches lead
 * forward, so all paths to an instruction are known when the checker reaches it: `ways` has the cost of the dearest
 * one, and a branch into the middle of an instruction is found when the checker passes that instruction. A helper
 * checks the numbers that it is given itself. Its cost depends on how many bytes it handles: a number that was moved
 * into its register since the last call or branch target is known; any other may be as large as the frame, and helpers
 * refuse larger numbers.
 */
#ifndef ILK_D_CHECK_H
#define ILK_D_CHECK_H

#include "../../abi/ilk_d_forms.h"

#define ILK_D_FORM_BYTES 5u
#define ILK_D_NUMBERS 5u /* arguments of a helper */
#define ILK_D_OTHERWISE 8u /* in `writes`: the register gets another value than the immediate */
#define ILK_D_NO_WAY 0u /* costs begin at 1 */

enum ilk_d_verdict {
	ILK_D_SOUND,
	ILK_D_BAD_FORM, /* no instruction of the table of forms */
	ILK_D_BAD_FRAME, /* beyond the frame */
	ILK_D_BAD_BRANCH, /* backwards, or beyond the code */
	ILK_D_BAD_TARGET, /* into the middle of an instruction */
	ILK_D_BAD_CALL, /* no such helper */
	ILK_D_BAD_END, /* control reaches the end of the code */
	ILK_D_BAD_ENTRY, /* a group begins where there is no code */
	ILK_D_TOO_LONG, /* it costs more than clausetime */
	ILK_D_BAD_DEED /* a call that changes processes, without the right to */
};

struct ilk_d_form {
	u8 size;
	u8 operand;
	u8 width;
	u8 writes;
	u8 code[ILK_D_FORM_BYTES];
};

/* The code that is checked. `ways` has a word for each byte of code, which the checker uses. */
struct ilk_d_code {
	const u8 *code;
	u32 size;
	u32 frame; /* bytes */
	u32 clausetime; /* the most that one group may cost */
	u32 groups;
	u32 deeds; /* not 0: it may call helpers that change processes */
	const u32 *entry; /* of each group, in the code */
	u32 *ways;
	u32 where; /* the offset of the instruction to blame; for BAD_ENTRY, the group */
};

/* The arguments of the next call that are known at an instruction: bits of `known`. */
struct ilk_d_given {
	u32 known;
	u32 number[ILK_D_NUMBERS];
};

static const struct ilk_d_form ilk_d_forms[] = {
#define ILK_D_FORM(size, operand, width, writes, ...) { size, operand, width, writes, { __VA_ARGS__ } },
	ILK_D_FORM_ROWS(ILK_D_FORM)
#undef ILK_D_FORM
};

#define ILK_D_FORM_COUNT (sizeof(ilk_d_forms) / sizeof(ilk_d_forms[0]))

static const struct {
	u32 cost;
	u32 per_word;
	u32 sizes; /* bits of those arguments that are sizes */
} ilk_d_costs[ILK_D_CALLS] = {
#define ILK_D_COST(name, cost, per_word, sizes) { cost, per_word, sizes },
	ILK_D_CALL_ROWS(ILK_D_COST)
#undef ILK_D_COST
};

static inline u32 ilk_d_operand_size(u8 operand)
{
	static const u8 sizes[] = { 0, 4, 8, 4, 8, 4, 4, 4, 0 };

	return sizes[operand];
}

static inline u32 ilk_d_number(const u8 *at)
{
	return at[0] | (u32)at[1] << 8 | (u32)at[2] << 16 | (u32)at[3] << 24;
}

static inline bool ilk_d_begins(const struct ilk_d_form *form, const u8 *at, u32 left)
{
	u32 i;

	if (form->size + ilk_d_operand_size(form->operand) > left)
		return false;
	for (i = 0; i < form->size; i++)
		if (at[i] != form->code[i])
			return false;
	return true;
}

/* The form of the instruction at `at`; null: it has none. */
static inline const struct ilk_d_form *ilk_d_form_at(const u8 *at, u32 left)
{
	u32 i;

	for (i = 0; i < ILK_D_FORM_COUNT; i++)
		if (ilk_d_begins(&ilk_d_forms[i], at, left))
			return &ilk_d_forms[i];
	return 0;
}

/* Record that a path to `to` costs `cost`; the dearest one is kept. */
static inline void ilk_d_lead(struct ilk_d_code *c, u32 to, u32 cost)
{
	if (c->ways[to] < cost)
		c->ways[to] = cost;
}

/* The target of a branch that ends at `next`; 0 if it does not lead forward, or leads out of the code. */
static inline u32 ilk_d_target(const struct ilk_d_code *c, u32 next, u32 displacement)
{
	if (displacement >= c->size || next >= c->size || displacement >= c->size - next)
		return 0;
	return next + displacement;
}

/* How many words a call may handle, given the arguments in `sizes`. */
static inline u32 ilk_d_words(const struct ilk_d_code *c, const struct ilk_d_given *given, u32 sizes)
{
	u32 words = 0, i;

	if (!sizes)
		return c->frame / 8;
	for (i = 0; i < ILK_D_NUMBERS; i++) {
		if (!(sizes >> i & 1))
			continue;
		if (given->known >> i & 1 && given->number[i] < c->frame)
			words += given->number[i] / 8 + 1;
		else
			words += c->frame / 8;
	}
	return words;
}

static inline u32 ilk_d_cost_of_call(const struct ilk_d_code *c, const struct ilk_d_given *given, u32 number)
{
	return ilk_d_costs[number].cost + ilk_d_costs[number].per_word * ilk_d_words(c, given, ilk_d_costs[number].sizes);
}

/* Update the known arguments after an instruction that is no call. */
static inline void ilk_d_give(struct ilk_d_given *given, const struct ilk_d_form *form, u32 number)
{
	u32 which = (form->writes & ~ILK_D_OTHERWISE) - 1;

	if (!form->writes)
		return;
	given->known &= ~(1u << which);
	if (form->writes & ILK_D_OTHERWISE)
		return;
	given->known |= 1u << which;
	given->number[which] = number;
}

/*
 * Check the instruction at `at`; the dearest path to it costs `cost`. *next gets the cost of the path behind it, or
 * ILK_D_NO_WAY if control does not continue there.
 */
static inline enum ilk_d_verdict ilk_d_check_one(struct ilk_d_code *c, u32 at, const struct ilk_d_form *form, u32 cost,
						 struct ilk_d_given *given, u32 *next)
{
	u32 end = at + form->size + ilk_d_operand_size(form->operand), to;
	u32 number = form->operand == ILK_D_NONE || form->operand == ILK_D_EXIT ? 0 :
							 ilk_d_number(c->code + at + form->size);

	*next = cost == ILK_D_NO_WAY ? cost : cost + 1;
	ilk_d_give(given, form, number);
	switch (form->operand) {
	case ILK_D_FRAME:
	case ILK_D_FRAME_IMMEDIATE:
		return number <= c->frame && form->width <= c->frame - number ? ILK_D_SOUND : ILK_D_BAD_FRAME;
	case ILK_D_JUMP:
	case ILK_D_BRANCH:
		to = ilk_d_target(c, end, number);
		if (!to)
			return ILK_D_BAD_BRANCH;
		ilk_d_lead(c, to, *next);
		if (form->operand == ILK_D_JUMP)
			*next = ILK_D_NO_WAY;
		return ILK_D_SOUND;
	case ILK_D_CALL:
		if (number >= ILK_D_CALLS)
			return ILK_D_BAD_CALL;
		if (number >= ILK_D_DEEDS && !c->deeds)
			return ILK_D_BAD_DEED;
		if (cost != ILK_D_NO_WAY)
			*next += ilk_d_cost_of_call(c, given, number);
		given->known = 0;
		return ILK_D_SOUND;
	case ILK_D_EXIT:
		*next = ILK_D_NO_WAY;
		return ILK_D_SOUND;
	}
	return ILK_D_SOUND;
}

/* Whether a branch leads into the middle of the instruction. */
static inline bool ilk_d_is_split(const struct ilk_d_code *c, u32 at, u32 end)
{
	for (at++; at < end; at++)
		if (c->ways[at] != ILK_D_NO_WAY)
			return true;
	return false;
}

static inline bool ilk_d_enter_groups(struct ilk_d_code *c)
{
	u32 i;

	for (i = 0; i < c->size; i++)
		c->ways[i] = ILK_D_NO_WAY;
	for (i = 0; i < c->groups; i++) {
		c->where = i;
		if (c->entry[i] >= c->size)
			return false;
		ilk_d_lead(c, c->entry[i], 1);
	}
	return true;
}

static inline enum ilk_d_verdict ilk_d_check(struct ilk_d_code *c)
{
	struct ilk_d_given given = { 0 };
	u32 at = 0, end, cost = ILK_D_NO_WAY;

	if (!ilk_d_enter_groups(c))
		return ILK_D_BAD_ENTRY;
	for (; at < c->size; at = end) {
		const struct ilk_d_form *form = ilk_d_form_at(c->code + at, c->size - at);
		enum ilk_d_verdict verdict;

		c->where = at;
		if (!form)
			return ILK_D_BAD_FORM;
		end = at + form->size + ilk_d_operand_size(form->operand);
		if (ilk_d_is_split(c, at, end))
			return ILK_D_BAD_TARGET;
		if (c->ways[at] != ILK_D_NO_WAY)
			given.known = 0;
		verdict = ilk_d_check_one(c, at, form, cost > c->ways[at] ? cost : c->ways[at], &given,
					  &cost);
		if (verdict != ILK_D_SOUND)
			return verdict;
		if (cost > c->clausetime)
			return ILK_D_TOO_LONG;
	}
	return cost == ILK_D_NO_WAY ? ILK_D_SOUND : ILK_D_BAD_END;
}

/*
 * Link checked code that will run at the address `at`: its calls lead to the addresses that `helper` returns for their
 * numbers, its exits to `leave`, all within 2 GiB. `copy` has 8 more bytes behind the code.
 */
static inline void ilk_d_link(u8 *copy, u32 size, u64 at, u64 (*helper)(u32 number), u64 leave)
{
	u32 from = 0, end, i;

	for (; from < size; from = end) {
		const struct ilk_d_form *form = ilk_d_form_at(copy + from, size - from);
		u64 to = form->operand == ILK_D_CALL ? helper(ilk_d_number(copy + from + form->size)) : leave;

		end = from + form->size + ilk_d_operand_size(form->operand);
		if (form->operand != ILK_D_CALL && form->operand != ILK_D_EXIT)
			continue;
		for (i = 0; i < 4; i++)
			copy[end - 4 + i] = (u8)((to - (at + end)) >> 8 * i);
	}
}

#endif
