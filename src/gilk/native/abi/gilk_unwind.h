/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Unwind tables: how to get from a frame to its caller's, without frame pointers.
 *
 *   struct gu_head       at the start of the room that the memory has for them
 *   struct gu_rule[]     what rows say; there are few, and images share them
 *   per image            pages u32[page_count + 1], from u32[rows], rule u16[rows]
 *   struct gu_map        what is mapped where, sorted by address
 *   cache                u64[GU_CACHE]: rules of addresses that were met
 *
 * Offsets are bytes from gu_head. A row holds from its address on to the next one's;
 * addresses are relative to gu_module.base. pages[n] is the number of rows below address
 * n << GU_PAGE. An address that no row holds has no rule.
 *
 * A word of the cache is address << 16 | rule, at the place that the address hashes to. Clauses put
 * them there, in one store, and find their own there or do not; the client zeroes them when it publishes.
 *
 * Ownership: all else is the client's; clauses read. It adds, and changes nothing that it has
 * once published, which is done by the store of gu_head.map. Whoever reads bounds all that is
 * found: the program may have scribbled on it.
 */
#ifndef GILK_UNWIND_H
#define GILK_UNWIND_H

#include "gilk_abi.h"

#define GU_PAGE 8
#define GU_RULES 65535 /* at most */
#define GU_CACHE_BITS 13
#define GU_CACHE (1 << GU_CACHE_BITS)

enum gu_how {
	GU_NONE,   /* nothing is known: go by the frame pointer */
	GU_PLAIN,  /* CFA = base + offset */
	GU_DEREF,  /* CFA = *(base + offset) + more */
	GU_SIGNAL, /* RSP is at the ucontext of a signal */
	GU_END	   /* no one has called this */
};

/* Where a register was saved: 0, nowhere: it is unchanged. Else twice the distance from the CFA; odd: from RBP. */
typedef int gu_saved;

struct gu_rule {
	gilk_u8 how;  /* enum gu_how */
	gilk_u8 base; /* a register, as struct gilk_regs has them */
	gilk_u8 reserved[2];
	int offset;
	int more; /* GU_PLAIN: not 0 where the return address is in a register: its number, plus one */
	int pc; /* where the return address lies, from the CFA */
	gu_saved bp;
	gu_saved bx;
};

struct gu_head {
	gilk_u64 map;	/* struct gu_map; 0: none yet */
	gilk_u64 rules; /* struct gu_rule[GU_RULES] */
	gilk_u64 cache;
	gilk_u32 missed; /* set when an address was in nothing that is known here; the client clears it */
	gilk_u32 reserved;
};

struct gu_module { /* executable code; without rows where nothing is known of it */
	gilk_u64 start;
	gilk_u64 end;
	gilk_u64 base;
	gilk_u64 pages;
	gilk_u64 from;
	gilk_u64 rule;
	gilk_u32 page_count;
	gilk_u32 rows;
};

struct gu_map {
	gilk_u64 count;
	struct gu_module module[];
};

#endif
