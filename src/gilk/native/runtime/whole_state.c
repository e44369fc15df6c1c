/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Follows the rest of a patch on paper, from where a signal has interrupted it: only what saves and restores registers,
 * flags and the stack pointer is looked at, and the instrument's work is passed over. Registers that the patch does not
 * restore are dead to the program, whatever they hold. An unknown instruction ends it: the handler then sees what there
 * is.
 *
 * Handlers may run on small stacks, so values are noted as 16-bit numbers: where a value was when the thread was
 * interrupted.
 */
#include "context_words.h"
#include "places.h"
#include "whole_state.h"
#include "work_size.h"

#define MOST_STEPS 400
#define MOST_STORED 24
#define RAX 0
#define RSP 4
/* Where a value was: below 16, in the register of that number. */
#define IN_FLAGS 16
#define UNKNOWN 17
#define ON_STACK 0x4000 /* plus the number of words from the stack pointer */

typedef unsigned short u16;

struct walk {
	gilk_u64 context;
	const gilk_u8 *at;
	long depth; /* bytes by which the stack pointer is above that of the context */
	u16 from[16], flags;
	u16 slots[MOST_STORED], stored[MOST_STORED]; /* what the rest of the patch has stored, and where */
	u16 count;
	int jumped;
};

static gilk_u32 word32(const gilk_u8 *at)
{
	return at[0] | at[1] << 8 | at[2] << 16 | (gilk_u32)at[3] << 24;
}

static long signed32(const gilk_u8 *at)
{
	return (int)word32(at);
}

/* Moves between a register and the stack, and lea rsp, as splice/frame.py writes them: REX.W op modrm sib disp32. */
struct move {
	gilk_u8 opcode; /* 0: it is another instruction */
	gilk_u8 reg;
	long offset;
};

#define STORE 0x89
#define LOAD 0x8b
#define LEA 0x8d
#define MOVE_SIZE 8

static struct move move_at(const gilk_u8 *at)
{
	int is_one = (at[0] & 0xfb) == 0x48 && (at[1] == STORE || at[1] == LOAD || at[1] == LEA);

	if (!is_one || (at[2] & 0xc7) != 0x84 || at[3] != 0x24)
		return (struct move){0, 0, 0};
	return (struct move){at[1], (at[2] >> 3 & 7) | (at[0] & 4) << 1, signed32(at + 4)};
}

static int is_stack_move(struct move move)
{
	return move.opcode == LEA && move.reg == RSP;
}

/* Instructions that restore. */

static int is_flags_store(const gilk_u8 *at)
{
	return move_at(at).opcode == STORE && at[-4] == 0x9f && at[-3] == 0x0f && at[-2] == 0x90 && at[-1] == 0xc0;
}

/* Whether what comes next restores registers until the stack pointer is where it was before the instrument. */
static int is_end_of_frame(const gilk_u8 *at)
{
	struct move move = move_at(at);

	for (unsigned steps = 0; steps < MOST_STORED; steps++, move = move_at(at)) {
		if (is_stack_move(move))
			return move.offset > 0;
		if (at[0] == 0x9e || (at[0] == 0x04 && at[1] == 0x7f))
			at += at[0] == 0x04 ? 2 : 1;
		else if (move.opcode == LOAD)
			at += MOVE_SIZE;
		else
			return 0;
	}
	return 0;
}

/* Do one instruction of the end of a frame. Returns its size. */
static unsigned restore_one(gilk_u64 context, const gilk_u8 *at)
{
	gilk_u64 *rax = gilk_context_word(context, gilk_index_of(RAX)), *rsp = gilk_context_word(context, GILK_RSP_INDEX);
	gilk_u64 *flags = gilk_context_word(context, GILK_FLAGS_INDEX);
	struct move move = move_at(at);

	if (at[0] == 0x04) { /* add al, 127; sahf */
		*flags = gilk_flags_of_image(*flags, *rax);
		return 3;
	}
	if (at[0] == 0x9e) { /* sahf: OF is right already */
		*flags = (*flags & ~GILK_BY_LAHF) | (*rax >> 8 & GILK_BY_LAHF);
		return 1;
	}
	if (move.opcode == LOAD)
		*gilk_context_word(context, gilk_index_of(move.reg)) = *(gilk_u64 *)(*rsp + move.offset);
	else
		*rsp += move.offset;
	return MOVE_SIZE;
}

/* Do one instruction behind lahf that saves the flags. Returns its size; 0: it is another. */
static unsigned save_flags(gilk_u64 context, const gilk_u8 *at)
{
	gilk_u64 *rax = gilk_context_word(context, gilk_index_of(RAX)), rsp = *gilk_context_word(context, GILK_RSP_INDEX);
	gilk_u64 flags = *gilk_context_word(context, GILK_FLAGS_INDEX);

	if (at[-1] == 0x9f && at[0] == 0x0f && at[1] == 0x90 && at[2] == 0xc0) { /* seto al */
		*rax = (*rax & ~0xffUL) | !!(flags & GILK_OVERFLOW);
		return 3;
	}
	if (!is_flags_store(at))
		return 0;
	*(gilk_u64 *)(rsp + move_at(at).offset) = *rax;
	return MOVE_SIZE;
}

static int is_place(gilk_u64 address)
{
	return gilk_is_place(gilk_row_of_patch(address), address);
}

void gilk_restore_rest(gilk_u64 context)
{
	gilk_u64 *rip = gilk_context_word(context, GILK_RIP_INDEX);
	unsigned size;

	while (!is_place(*rip)) {
		const gilk_u8 *at = (const gilk_u8 *)*rip;

		size = is_end_of_frame(at) ? restore_one(context, at) : save_flags(context, at);
		if (!size)
			return;
		*rip += size;
	}
}

/* The walk. */

static u16 place_on_stack(const struct walk *walk, long offset)
{
	return (u16)(ON_STACK + (walk->depth + offset) / 8);
}

static int is_near(const struct walk *walk, long offset)
{
	long bytes = walk->depth + offset;

	return !(bytes & 7) && bytes > -(1 << 15) && bytes < 1 << 15;
}

/* Note that the rest of the patch stores a value. Returns whether there was room. */
static int put(struct walk *walk, long offset, u16 value)
{
	u16 slot = place_on_stack(walk, offset), i = 0;

	while (i < walk->count && walk->slots[i] != slot)
		i++;
	if (i == MOST_STORED || !is_near(walk, offset))
		return 0;
	walk->slots[i] = slot;
	walk->stored[i] = value;
	walk->count += i == walk->count;
	return 1;
}

static u16 got(const struct walk *walk, long offset)
{
	u16 slot = place_on_stack(walk, offset);

	if (!is_near(walk, offset))
		return UNKNOWN;
	for (u16 i = 0; i < walk->count; i++)
		if (walk->slots[i] == slot)
			return walk->stored[i];
	return slot;
}

static int step_move(struct walk *walk, struct move move)
{
	walk->at += MOVE_SIZE;
	if (is_stack_move(move)) {
		walk->depth += move.offset;
		return is_near(walk, 0);
	}
	if (move.opcode == STORE)
		return put(walk, move.offset, walk->from[move.reg]);
	if (move.opcode == LOAD)
		walk->from[move.reg] = got(walk, move.offset);
	return move.reg != RSP;
}

static int step_push(struct walk *walk, u16 value, unsigned size)
{
	walk->at += size;
	walk->depth -= 8;
	return put(walk, 0, value);
}

/* A call of advice decides what the program does; others return with what the patch has saved. */
static int step_call(struct walk *walk)
{
	const gilk_u8 *at = walk->at;

	walk->at += 5;
	return !(at[-7] == 0x4c && at[-6] == 0x8d && at[-5] == 0x1d);
}

static int step_jump(struct walk *walk, long distance)
{
	walk->at += distance;
	walk->jumped = 1;
	return 1;
}

/* The value that was in a register or on the stack when the thread was interrupted. */
static gilk_u64 value_of(const struct walk *walk, u16 from)
{
	gilk_u64 *rsp = (gilk_u64 *)*gilk_context_word(walk->context, GILK_RSP_INDEX);

	if (from >= ON_STACK)
		return rsp[from - ON_STACK];
	return from < 16 ? *gilk_context_word(walk->context, gilk_index_of(from)) : 0;
}

/* The jump that remains of an indirect call, whose return address is on the stack: by a register, or by a word at rip. */
static int step_indirect(struct walk *walk)
{
	const gilk_u8 *at = walk->at + (*walk->at == 0x3e);
	unsigned rex = (*at & 0xf0) == 0x40 ? *at++ : 0;

	if (at[0] != 0xff || (at[1] != 0x25 && (at[1] & 0xf8) != 0xe0))
		return 0;
	if (at[1] == 0x25)
		walk->at = (const gilk_u8 *)*(const gilk_u64 *)(at + 6 + signed32(at + 2));
	else
		walk->at = (const gilk_u8 *)value_of(walk, walk->from[(at[1] & 7) | (rex & 1) << 3]);
	walk->jumped = 1;
	return 1;
}

static int step_pop(struct walk *walk, unsigned number, unsigned size)
{
	walk->at += size;
	walk->from[number] = got(walk, 0);
	walk->depth += 8;
	return number != RSP;
}

/* popf of flags that were pushed before the thread was interrupted is not known: DF lies there, and the rest elsewhere. */
static int step_pop_flags(struct walk *walk)
{
	walk->at += 1;
	walk->flags = got(walk, 0);
	walk->depth += 8;
	return walk->flags == IN_FLAGS;
}

static int step_one_byte(struct walk *walk, gilk_u8 op)
{
	switch (op) {
	case 0x9f: /* lahf; seto al follows */
		walk->from[RAX] = walk->flags;
		walk->at += 4;
		return 1;
	case 0x04: /* add al, 127; sahf */
		walk->flags = walk->from[RAX];
		walk->at += 3;
		return walk->at[-2] == 0x7f && walk->at[-1] == 0x9e && (walk->flags == IN_FLAGS || walk->flags >= ON_STACK);
	case 0x9c:
		return step_push(walk, walk->flags, 1);
	case 0x9d:
		return step_pop_flags(walk);
	case 0x68:
		return step_push(walk, UNKNOWN, 5);
	case 0xe8:
		return step_call(walk);
	case 0xe9:
		return step_jump(walk, 5 + signed32(walk->at + 1));
	case 0xeb:
		return step_jump(walk, 2 + (signed char)walk->at[1]);
	}
	return -1;
}

static int step(struct walk *walk)
{
	const gilk_u8 *at = walk->at;
	struct move move = move_at(at);
	unsigned rex = at[0] == 0x41, number = (at[rex] & 7) | rex << 3, size;
	int done;

	walk->jumped = 0;
	if (move.opcode && (move.opcode != LEA || is_stack_move(move)))
		return step_move(walk, move);
	done = step_one_byte(walk, at[0]);
	if (done >= 0)
		return done;
	if ((at[rex] & 0xf8) == 0x50)
		return step_push(walk, walk->from[number], 1 + rex);
	if ((at[rex] & 0xf8) == 0x58)
		return step_pop(walk, number, 1 + rex);
	size = gilk_size_of_work(at);
	walk->at += size;
	return size ? 1 : step_indirect(walk);
}

/* Follow the patch to a place in the original code. Returns its address; 0: it is not known. */
static gilk_u64 follow(struct walk *walk)
{
	for (int steps = 0; steps < MOST_STEPS; steps++) {
		struct gilk_row row = gilk_row_of_patch((gilk_u64)walk->at);

		if (steps && gilk_is_place(row, (gilk_u64)walk->at))
			return row.to & ~GILK_ROW_AFTER;
		if (!row.to)
			return walk->jumped ? (gilk_u64)walk->at : 0;
		if (!step(walk))
			return 0;
	}
	return 0;
}

/* The exchange that makes the state that a walk has ended with. Returns whether it is one that GILK_FRAME_... can tell. */
static int frame_of(const struct walk *walk, gilk_u64 *frame)
{
	gilk_u64 mask = 0, first = 0, words = 0;

	if (walk->depth < 0)
		return 0;
	for (unsigned number = 0; number <= 16; number++) {
		u16 from = number < 16 ? walk->from[number] : walk->flags;

		if (from == number)
			continue;
		if (from < ON_STACK || number == RSP)
			return 0;
		first = words ? first : from - (gilk_u64)ON_STACK;
		if (from != ON_STACK + first + words++)
			return 0;
		mask |= 1UL << number;
	}
	*frame = mask | first << GILK_FRAME_WORDS | (gilk_u64)(walk->depth / 8) << GILK_FRAME_DEPTH;
	return first <= GILK_FRAME_FIELD && words < MOST_STORED;
}

/* A call that was moved (splice/relocate.py) pushes its return address in three steps, and then jumps. */
static int is_amid_call(gilk_u64 rip, struct gilk_row row)
{
	const gilk_u8 *at = (const gilk_u8 *)row.from;
	gilk_u64 behind = rip - row.from;
	int is_moved = at[0] == 0xe8 && word32(at + 1) == 1 && at[5] == 0xcc;

	return is_moved && (behind == 6 || behind == 13 || behind == 21);
}

int gilk_find_whole(gilk_u64 context, struct gilk_whole *found)
{
	gilk_u64 rip = *gilk_context_word(context, GILK_RIP_INDEX);
	struct gilk_row row = gilk_row_of_patch(rip);
	struct walk walk;
	gilk_u64 frame, original;

	if (is_amid_call(rip, row)) {
		*found = (struct gilk_whole){row.to & ~GILK_ROW_AFTER, 1UL << GILK_FRAME_DEPTH};
		return 1;
	}
	walk.context = context;
	walk.at = (const gilk_u8 *)rip;
	walk.depth = walk.jumped = 0;
	walk.count = 0;
	walk.flags = IN_FLAGS;
	for (u16 number = 0; number < 16; number++)
		walk.from[number] = number;
	original = follow(&walk);
	if (!original || !frame_of(&walk, &frame))
		return 0;
	*found = (struct gilk_whole){original, frame};
	return 1;
}
