// SPDX-License-Identifier: GPL-2.0
/*
 * Checks of a unit that need no look at the kernel: its fields, the
 * instructions that it displaces, the jump that it writes.
 */
#include <linux/string.h>
#include <asm/insn.h>

#include "ilk.h"

#define INT3 0xcc
#define NOP 0x90
#define CALL 0xe8
#define JMP 0xe9
#define JMP8 0xeb
#define RET 0xc3

/* How many bytes of the window are the splice itself; no CPU reaches the bytes behind it any more. */
u32 ilk_front(u8 kind)
{
	switch (kind) {
	case ILK_TRAP:
		return 1;
	case ILK_SHORT:
		return 2;
	default:
		return 5;
	}
}

static bool fields(const struct ilk_unit *unit)
{
	bool several = unit->flags & ILK_SEVERAL;

	if (unit->kind < ILK_SINGLE || unit->kind > ILK_PAD || !unit->id || unit->zero)
		return false;
	if (unit->flags & ~ILK_SEVERAL || (several && unit->kind != ILK_SHORT))
		return false;
	if (unit->address + unit->length < unit->address || (unit->pad && unit->kind != ILK_SHORT))
		return false;
	if (unit->kind == ILK_FENTRY)
		return unit->length == 5;
	return unit->length >= ilk_front(unit->kind) && unit->length <= ILK_WINDOW;
}

static bool filler(const u8 *bytes, u32 from, u32 to)
{
	for (; from < to; from++)
		if (bytes[from] != NOP && bytes[from] != INT3)
			return false;
	return true;
}

static bool all_int3(const u8 *bytes, u32 from, u32 to)
{
	for (; from < to; from++)
		if (bytes[from] != INT3)
			return false;
	return true;
}

static s32 displacement(const u8 *bytes)
{
	s32 value;

	memcpy(&value, bytes, 4);
	return value;
}

static bool leads_to_patch(const struct ilk_unit *unit)
{
	return unit->address + 5 + displacement(unit->new + 1) == unit->patch;
}

static bool bytes_fit(const struct ilk_unit *unit)
{
	switch (unit->kind) {
	case ILK_FENTRY:
		return true;
	case ILK_TRAP:
		return unit->new[0] == INT3;
	case ILK_SHORT:
		return unit->new[0] == JMP8 && filler(unit->new, 2, unit->length);
	default:
		break;
	}
	if (!filler(unit->new, 5, unit->length) || !leads_to_patch(unit))
		return false;
	if (unit->new[0] == CALL)
		return unit->kind == ILK_SINGLE && unit->old[0] == CALL && unit->length == 5;
	return unit->new[0] == JMP;
}

static bool displaceable(const struct insn *insn)
{
	u8 first = insn->opcode.bytes[0];
	u8 second = insn->opcode.bytes[1];

	switch (first) {
	case 0x0f: /* syscall, sysret, sysenter, sysexit, ud0, ud1 */
		return second != 0x05 && second != 0x07 && second != 0x34 && second != 0x35 &&
		       second != 0xb9 && second != 0xff;
	case INT3:
	case 0xcd: /* int */
	case 0xcf: /* iret */
	case 0xf1:
	case 0xc7: /* xbegin; also a plain mov */
		return first == 0xc7 && insn->modrm.value != 0xf8;
	default:
		return true;
	}
}

/*
 * Whether no instruction of the window may follow this one: a task in the function that a call has called returns
 * behind the call, and nothing is known about the code behind a jump or a return.
 */
static bool ends_block(const struct insn *insn)
{
	u8 first = insn->opcode.bytes[0];
	u8 group = X86_MODRM_REG(insn->modrm.value);

	return first == CALL || first == JMP || first == JMP8 || first == RET || first == 0xc2 ||
	       first == 0xca || first == 0xcb || (first == 0xff && group >= 2 && group <= 5);
}

/* Whether the instruction is a ud2 of BUG or WARN, which the kernel's trap handler looks up by its address. */
static bool is_ud2(const struct insn *insn)
{
	return insn->opcode.bytes[0] == 0x0f && insn->opcode.bytes[1] == 0x0b;
}

static u32 window(const struct ilk_unit *unit)
{
	bool several = unit->kind == ILK_MULTI || unit->flags & ILK_SEVERAL;
	struct insn insn;
	u32 at = 0, count = 0;

	while (at < unit->length) {
		if (ilk_kernel.insn_decode(&insn, unit->old + at, unit->length - at,
					   INSN_MODE_KERN) ||
		    !displaceable(&insn))
			return ILK_DECODE;
		if (is_ud2(&insn))
			return ILK_BUG;
		at += insn.length;
		count++;
		if (ends_block(&insn))
			break;
	}
	if (!several && count != 1)
		return ILK_DECODE;
	if (insn.opcode.bytes[0] == RET)
		return all_int3(unit->old, at, unit->length) ? ILK_OK : ILK_DECODE;
	return at == unit->length ? ILK_OK : ILK_DECODE;
}

static bool copy_needed(const struct ilk_unit *unit)
{
	if (unit->kind == ILK_SINGLE)
		return unit->length != 5 || (unit->old[0] != CALL && unit->old[0] != JMP);
	return unit->kind == ILK_MULTI || unit->kind == ILK_SHORT;
}

u32 ilk_validate(struct ilk_client *client, const struct ilk_unit *unit)
{
	if (!fields(unit))
		return ILK_BAD_UNIT;
	if (!bytes_fit(unit))
		return ILK_BAD_BYTES;
	if (!ilk_arena_holds(client, unit->patch))
		return ILK_BAD_PATCH;
	if ((unit->copy || copy_needed(unit)) && !ilk_arena_holds(client, unit->copy))
		return ILK_BAD_PATCH;
	return unit->kind == ILK_FENTRY || unit->kind == ILK_PAD ? ILK_OK : window(unit);
}
