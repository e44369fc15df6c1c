/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Walk a thread's stack, frame by frame, from the program's registers.
 *
 * Unwind tables tell a frame's caller; where they have no row, the frame pointer does. The content of the stack is not
 * trusted: memory is read directly only where it is certain to be mapped, and copied by host_peek_some() elsewhere;
 * each step leads upwards, except out of a signal handler; steps and copies are limited.
 *
 * The page that RSP points into is certain to be mapped from RSP on: the patch has pushed below RSP, so the page is
 * there unless RSP is at its very beginning.
 *
 * Ownership: whoever walks gives the memory for copies (gw_prepare), and defines that function behind this header.
 */
#ifndef GILK_WALK_SHARED_H
#define GILK_WALK_SHARED_H

#include "../../host/host.h"
#include "tables.h"

#define GW_RED_ZONE 128
#define GW_COPY 8192 /* bytes that are copied at a time */
#define GW_COPIES 64 /* at most, in one walk */
#define GW_EDGE 256 /* a patch and its thunk have surely written within so many bytes below RSP */
#define GW_DEEPEST 4096 /* frames */

enum { GW_BX = 3, GW_SP = 4, GW_BP = 5, GW_PC = 16, GW_REGS = 18 }; /* in struct gilk_regs */

struct gw_window { /* a copy at `data` of the memory from address `low` on */
	gilk_u64 low;
	gilk_u64 size;
	const gilk_u8 *data;
};

struct gw_walk {
	struct gw_tables tables;
	struct gw_window page;
	struct gw_window copy; /* `data` is null before the first copy */
	const gilk_u64 *regs; /* of the innermost frame; null afterwards */
	gilk_u64 pc;
	gilk_u64 sp;
	gilk_u64 bp;
	gilk_u64 bx;
	gilk_u64 slot; /* where pc was read as a return address; 0: it was not read from the stack */
	gilk_u32 copies;
	gilk_u32 pid; /* for host_peek_some() */
	gilk_u8 exact; /* pc is the next instruction to run, not a return address */
	gilk_u8 edge; /* at a function's first instruction, or at its last: the frame is a return address only */
	gilk_u8 ended; /* there is no caller */
};

/* Set copy.data to GW_COPY bytes of memory, and pid. Returns 0 if the walk may not copy memory. */
static inline int gw_prepare(struct gw_walk *w);

/* The readable part of the stack's page, which has been written below `sp`. */
static inline struct gw_window gw_page(gilk_u64 sp)
{
	gilk_u64 size = GILK_PAGE - (sp & (GILK_PAGE - 1));

	return (struct gw_window){sp, HOST_IN_PLACE && size <= GILK_PAGE - GW_EDGE ? size : 0, (const gilk_u8 *)sp};
}

typedef gilk_u64 __attribute__((__may_alias__, __aligned__(1))) gw_word;

static inline int gw_window_read(const struct gw_window *window, gilk_u64 address, gilk_u64 *to)
{
	gilk_u64 at = address - window->low;

	if (window->size < 8 || at > window->size - 8)
		return 0;
	*to = *(const gw_word *)(window->data + at);
	return 1;
}

/* Copy the memory around an address, as far as it is mapped: saved registers lie below it, and frames above. */
static inline int gw_fetch(struct gw_walk *w, gilk_u64 address)
{
	gilk_u64 low = address - w->sp < GW_RED_ZONE ? w->sp : address - GW_RED_ZONE;
	gilk_u64 end = (low + GW_COPY) & -(gilk_u64)GILK_PAGE;
	long got;

	if (w->copies++ >= GW_COPIES || end < low || (!w->copy.data && !gw_prepare(w)))
		return 0;
	got = host_peek_some(w->pid, (void *)w->copy.data, low, end - low);
	w->copy.low = low;
	w->copy.size = got > 0 ? (gilk_u64)got : 0;
	return w->copy.size != 0;
}

static inline int gw_read(struct gw_walk *w, gilk_u64 address, gilk_u64 *to)
{
	if (gw_window_read(&w->page, address, to) || gw_window_read(&w->copy, address, to))
		return 1;
	return gw_fetch(w, address) && gw_window_read(&w->copy, address, to);
}

/*
 * Restore a register of the caller; one that cannot be read counts as unchanged. "From RBP" is the RBP of this frame.
 * GCC also uses it at the end of a realigned frame, where RBP is already the caller's.
 */
static inline void gw_restore(struct gw_walk *w, gu_saved saved, gilk_u64 cfa, gilk_u64 *reg)
{
	gilk_u64 from = saved & 1 ? w->bp : cfa, value;

	if (!saved || (saved & 1 && w->bp - w->sp >= cfa - w->sp))
		return;
	if (gw_read(w, from + (gilk_u64)(long)(saved >> 1), &value))
		*reg = value;
}

/* The base register of a rule. RBX, RBP and RSP are known in every frame, the others in the innermost one only. */
static inline int gw_base(struct gw_walk *w, gilk_u32 reg, gilk_u64 *value)
{
	if (reg == GW_SP)
		*value = w->sp;
	else if (reg == GW_BP)
		*value = w->bp;
	else if (reg == GW_BX)
		*value = w->bx;
	else if (w->regs && reg < 16)
		*value = w->regs[reg];
	else
		return 0;
	return 1;
}

static inline int gw_cfa(struct gw_walk *w, const struct gu_rule *rule, gilk_u64 *cfa)
{
	if (!gw_base(w, rule->base, cfa))
		return 0;
	*cfa += (gilk_u64)(long)rule->offset;
	if (rule->how != GU_DEREF)
		return 1;
	if (!gw_read(w, *cfa, cfa))
		return 0;
	*cfa += (gilk_u64)(long)rule->more;
	return 1;
}

static inline int gw_is_at(struct gw_walk *w, gilk_u64 pc, gilk_u64 sp, gilk_u64 bp, gilk_u64 bx, gilk_u64 slot)
{
	w->pc = pc;
	w->sp = sp;
	w->bp = bp;
	w->bx = bx;
	w->slot = slot;
	w->exact = 0;
	w->edge = 0;
	w->regs = 0;
	w->ended = !pc;
	return pc != 0;
}

static inline int gw_step_plain(struct gw_walk *w, const struct gu_rule *rule)
{
	gilk_u64 cfa, pc, slot = 0, bp = w->bp, bx = w->bx;
	int in_register = rule->how == GU_PLAIN && rule->more;

	if (!gw_cfa(w, rule, &cfa) || cfa <= w->sp - (gilk_u64)in_register)
		return 0;
	if (!in_register)
		slot = cfa + (gilk_u64)(long)rule->pc;
	if (in_register ? !gw_base(w, (gilk_u32)rule->more - 1, &pc) : !gw_read(w, slot, &pc))
		return 0;
	gw_restore(w, rule->bp, cfa, &bp);
	gw_restore(w, rule->bx, cfa, &bx);
	return gw_is_at(w, pc, cfa, bp, bx, slot);
}

/* Step out of a signal frame. struct ucontext: uc_mcontext at 40 has r8 to r15, rdi rsi rbp rbx rdx rax rcx rsp rip. */
static inline int gw_step_signal(struct gw_walk *w)
{
	gilk_u64 pc, sp, bp, bx, regs = w->sp + 40;

	if (!gw_read(w, regs + 10 * 8, &bp) || !gw_read(w, regs + 11 * 8, &bx) || !gw_read(w, regs + 15 * 8, &sp)
	    || !gw_read(w, regs + 16 * 8, &pc))
		return 0;
	gw_is_at(w, pc, sp, bp, bx, 0);
	w->exact = 1;
	return pc != 0;
}

/* Step by the frame pointer. The word above a saved frame pointer counts as a return address if it leads to code. */
static inline int gw_step_pointer(struct gw_walk *w)
{
	gilk_u64 at = w->edge ? w->sp : w->bp + 8, pc, bp = w->bp;

	if (!w->edge && (w->bp & 7 || w->bp < w->sp))
		return 0;
	if (!gw_read(w, at, &pc) || (!w->edge && !gw_read(w, w->bp, &bp)))
		return 0;
	if (!gw_find_module(&w->tables, pc)) {
		gw_ask_for_more(&w->tables);
		return 0;
	}
	return gw_is_at(w, pc, at + 8, bp, w->bx, at);
}

/* Go to the caller's frame. Returns 0 if it cannot be found, or if there is none: then `ended` is set. */
static inline int gw_step(struct gw_walk *w)
{
	const struct gu_rule *rule;

	if (w->tables.size < sizeof(struct gu_head))
		return 0;
	rule = gw_rule(&w->tables, w->pc - !w->exact);
	switch (rule ? rule->how : GU_NONE) {
	case GU_PLAIN:
	case GU_DEREF:
		return gw_step_plain(w, rule);
	case GU_SIGNAL:
		return gw_step_signal(w);
	case GU_END:
		w->ended = 1;
		return 0;
	}
	return gw_step_pointer(w);
}

#endif
