/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The sizes of instructions that do an instrument's work in a patch: those that instruments are made of (arch/asm.py)
 * and their relatives (Intel SDM, volume 2).
 */
#include "work_size.h"

#define RSP 4
#define MODRM 1 /* how the operands of an opcode are encoded */
#define BYTE 2
#define WORD32 4
#define KNOWN 8
#define WRITES_REG 16 /* the register in the field reg of modrm is written */
#define WRITES_RM 32

static unsigned form_of(gilk_u8 op)
{
	if (op < 0x40 && (op & 7) < 4) /* add, or, and, sub, xor, cmp of registers and memory */
		return KNOWN | MODRM | (op >= 0x38 ? 0 : op & 2 ? WRITES_REG : WRITES_RM);
	if (op < 0x40 && (op & 7) < 6) /* the same of al or eax and a constant */
		return KNOWN | (op & 1 ? WORD32 : BYTE);
	switch (op) {
	case 0x84: case 0x85:
		return KNOWN | MODRM;
	case 0x88: case 0x89:
		return KNOWN | MODRM | WRITES_RM;
	case 0x8a: case 0x8b: case 0x8d: case 0x63:
		return KNOWN | MODRM | WRITES_REG;
	case 0x80: case 0x83: case 0xc0: case 0xc1: case 0xc6: case 0x6b:
		return KNOWN | MODRM | BYTE | WRITES_RM | WRITES_REG;
	case 0x81: case 0xc7: case 0x69:
		return KNOWN | MODRM | WORD32 | WRITES_RM | WRITES_REG;
	case 0xd0: case 0xd1: case 0xd2: case 0xd3: case 0xf6: case 0xf7: case 0xfe: case 0xff:
		return KNOWN | MODRM | WRITES_RM;
	case 0xa8:
		return KNOWN | BYTE;
	case 0xa9:
		return KNOWN | WORD32;
	case 0x90: case 0xfc:
		return KNOWN;
	}
	return 0;
}

static unsigned form_of_two(gilk_u8 op)
{
	if ((op & 0xf0) == 0x80) /* conditional jumps, which are not taken */
		return KNOWN | WORD32;
	if ((op & 0xf0) == 0x90 || (op & 0xf0) == 0x40) /* setcc, cmovcc */
		return KNOWN | MODRM | ((op & 0xf0) == 0x40 ? WRITES_REG : WRITES_RM);
	switch (op) {
	case 0x31: case 0xa2: /* the time stamp counter, the kind of processor */
		return KNOWN;
	case 0xb0: case 0xb1: case 0xc0: case 0xc1: case 0xab: case 0xb3:
		return KNOWN | MODRM | WRITES_RM | WRITES_REG;
	case 0xb6: case 0xb7: case 0xbe: case 0xbf: case 0xaf: case 0xbc: case 0xbd:
		return KNOWN | MODRM | WRITES_REG;
	case 0x1f: case 0xa3:
		return KNOWN | MODRM;
	case 0xba:
		return KNOWN | MODRM | BYTE | WRITES_RM;
	case 0xae: /* the base of fs; fences */
		return KNOWN | MODRM | WRITES_RM;
	}
	return 0;
}

/* The size of modrm and what belongs to it. */
static unsigned operand_size(const gilk_u8 *at)
{
	unsigned mod = at[0] >> 6, rm = at[0] & 7, size = 1;

	if (mod == 3)
		return 1;
	if (rm == 4) {
		size = 2;
		if (mod == 0 && (at[1] & 7) == 5)
			return size + 4;
	} else if (mod == 0 && rm == 5)
		return size + 4;
	return size + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
}

/* Whether the operands have an instruction write to the stack pointer. */
static int changes_stack_pointer(unsigned form, gilk_u8 rex, gilk_u8 modrm)
{
	int reg = (modrm >> 3 & 7) == RSP && !(rex & 4), rm = modrm >> 6 == 3 && (modrm & 7) == RSP && !(rex & 1);
	int group = (form & WRITES_RM) && (form & WRITES_REG) && (form & (BYTE | WORD32)); /* reg is a part of the opcode */

	return ((form & WRITES_REG) && reg && !group) || ((form & WRITES_RM) && rm);
}

unsigned gilk_size_of_work(const gilk_u8 *at)
{
	const gilk_u8 *start = at;
	unsigned form, wide = 0;
	gilk_u8 rex = 0;

	while (*at == 0x64 || *at == 0x65 || *at == 0xf0 || *at == 0xf2 || *at == 0xf3)
		at++;
	if ((*at & 0xf0) == 0x40)
		rex = *at++;
	if ((*at & 0xf8) == 0xb8) /* mov of a constant to a register */
		return (*at & 7) == RSP && !(rex & 1) ? 0 : (unsigned)(at - start) + (rex & 8 ? 9 : 5);
	if (*at == 0x0f) {
		form = form_of_two(*++at);
	} else
		form = form_of(*at);
	/* An immediate of test belongs to two members of a group only. */
	if ((*at == 0xf6 || *at == 0xf7) && at[-1] != 0x0f && (at[1] >> 3 & 7) < 2)
		wide = *at == 0xf6 ? 1 : 4;
	if ((*at == 0xfe || *at == 0xff) && (at[1] >> 3 & 7) > 1)
		return 0; /* calls, jumps, push */
	if (!form || ((form & MODRM) && changes_stack_pointer(form, rex, at[1])))
		return 0;
	at++;
	at += form & MODRM ? operand_size(at) : 0;
	return (unsigned)(at - start) + wide + (form & BYTE ? 1 : form & WORD32 ? 4 : 0);
}
