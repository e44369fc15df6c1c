/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Advice on accesses of memory: what a patch, the way into C (host/access.S) and the C know of each other.
 *
 * An instruction that reads or writes a variable, or memory by its address, runs in its patch with struct gilk_access,
 * on the program's stack, as its memory operand: it reads from there what is to be read, and writes there what is to be written, with its own
 * registers and flags. Advice runs before it, about what is read, and behind it, about what is written; it alone touches
 * the variable. An instruction that cannot have another operand runs as it is, and advice only observes. So does one that
 * reads and writes, where no advice stands in place of that: no signal handler can come in between, as it could else.
 */
#ifndef GILK_ACCESS_H
#define GILK_ACCESS_H

#define GILK_ACCESS_BYTES 64

#ifndef __ASSEMBLER__
#include "gilk_abi.h"

enum gilk_access_phase {
	GILK_ACCESS_WHOLE,  /* the instruction has struct gilk_access as its operand */
	GILK_ACCESS_AHEAD,  /* it runs as it is, and comes */
	GILK_ACCESS_BEHIND, /* it runs as it is, and has been */
	GILK_ACCESS_TRIED,  /* the same as AHEAD, but it has run with struct gilk_access to show what it writes */
	GILK_ACCESS_DECIDED, /* the same as AHEAD, and advice decides whether it runs */
};

struct gilk_access {
	gilk_u8 bytes[GILK_ACCESS_BYTES];
	gilk_u64 address; /* of the program's memory, where the bytes belong */
	gilk_u64 r11;	  /* of the program */
	gilk_u64 flags;	  /* likewise, where the direction may be set */
	gilk_u64 kept[2];
	gilk_u64 size; /* bytes that a string instruction reads or writes */
	gilk_u64 unused[2];
};

/* Constants of one place, in its patch. Distances are from behind themselves. */
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
