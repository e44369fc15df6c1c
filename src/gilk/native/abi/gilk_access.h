/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Advice on accesses of memory: the interface between a patch, the thunk (host/access.S) and the C code.
 *
 * An instruction that reads or writes a variable runs in its patch with another memory operand: struct gilk_access, on
 * the program's stack. It reads its input from there and writes its result there, with its own registers and flags.
 * Advice on reads runs before it, advice on writes behind it, and only advice touches the variable. An instruction
 * whose operand cannot be replaced runs unchanged, and advice only observes it. So does an instruction that both reads
 * and writes, unless advice stands in its place: otherwise a signal handler could run between its read and its write.
 *
 * Where a debug register has shown an access, there is no patch: the keeper fills in struct gilk_access below the red
 * zone of the thread, and leads the thread to gilk_trapped (targets/trapping.py). The first bytes are then those that
 * were read, or those that a write has overwritten; the written bytes are at GILK_ACCESS_WRITTEN.
 */
#ifndef GILK_ACCESS_H
#define GILK_ACCESS_H

#define GILK_ACCESS_BYTES 64
#define GILK_ACCESS_FRAME 256 /* from struct gilk_access to where the program's stack pointer is */
#define GILK_ACCESS_WRITTEN 32 /* of a trapped access, in struct gilk_access: the written bytes */
#define GILK_ACCESS_RBX 32 /* below struct gilk_access, while advice runs: the program's rbx */

#ifndef __ASSEMBLER__
#include "gilk_abi.h"

enum gilk_access_phase {
	GILK_ACCESS_WHOLE,  /* the operand is struct gilk_access */
	GILK_ACCESS_AHEAD,  /* the instruction runs unchanged, after the advice */
	GILK_ACCESS_BEHIND, /* the instruction runs unchanged, and has run before the advice */
	GILK_ACCESS_TRIED,  /* as AHEAD, but it has run once on struct gilk_access to show what it writes */
	GILK_ACCESS_DECIDED, /* as AHEAD, and advice decides whether it runs */
	GILK_ACCESS_TRAPPED, /* a debug register has shown an access that has been made; struct gilk_access tells */
};

struct gilk_access {
	gilk_u8 bytes[GILK_ACCESS_BYTES];
	gilk_u64 address; /* the accessed address in the program's memory */
	gilk_u64 r11;	  /* the program's r11 */
	gilk_u64 flags;	  /* the program's flags; the direction flag may be set */
	gilk_u64 kept[2]; /* of a trapped access: the sites of its read and of its write, or 0 */
	gilk_u64 size; /* bytes that a string instruction reads or writes; of a trapped access: the instruction's address */
	gilk_u64 rbp; /* the program's rbp, while advice runs */
	gilk_u64 back; /* of a trapped access: where the program goes on */
};

/* The constants of one site, in its patch. Each distance is relative to the end of its own word. */
struct gilk_access_site {
	int failed;  /* to where the patch goes on if there is no advice: no block, or the thread is in advice */
	int entry;	  /* to the C function */
	gilk_u32 vectors; /* 1: it may change vector registers */
	gilk_u32 number;  /* of the function that the instruction is in, among those of the C text */
	gilk_u32 size;	  /* bytes that the instruction reads or writes; 0: struct gilk_access has that */
	gilk_u32 phase;
	int pc;	     /* to the instruction, where the program has it */
	int skipped; /* to where the patch goes on if a string instruction is not to run */
};
#endif
#endif
