/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Walk the stack of the thread that fires a probe, frame by frame, from the program's registers.
 *
 * Unwind tables tell a frame's caller; where they have no row, the frame pointer does. The content of the stack is not
 * trusted: memory is read directly only where it is certain to be mapped, and copied by host_peek_some() elsewhere;
 * each step leads upwards, except out of a signal handler; steps and copies are limited.
 *
 * The page that RSP points into is certain to be mapped from RSP on: the patch has pushed below RSP, so the page is
 * there unless RSP is at its very beginning. Where clauses run in the consumer, for a thread of the process, the stack
 * was copied while the thread stood still. The copy begins with the red zone: at a function's return the unwind tables
 * may still refer to the slots from which registers have been popped.
 *
 * Ownership: copies lie in scratch memory of the clause, which is released when the walk ends.
 */
#ifndef GILK_D_STACK_H
#define GILK_D_STACK_H

#include "environment.h"
#include "peek.h"
#include "scratch.h"
#include "unwind.h"

#define GD_RED_ZONE 128
#define GD_STACK_COPY 8192 /* bytes that are copied at a time */
#define GD_STACK_COPIES 64 /* at most, in one walk */
#define GD_STACK_EDGE 256  /* a patch and its thunk have surely written within so many bytes below RSP */
#define GD_STACK_DEEPEST 4096 /* frames */

enum { GD_BX = 3, GD_SP = 4, GD_BP = 5, GD_PC = 16, GD_REGS = 18 }; /* in struct gilk_regs */

struct gd_window { /* a copy at `data` of the memory from address `low` on */
	gd_u64 low;
	gd_u64 size;
	const gd_u8 *data;
};

struct gd_walk {
	struct gd_context *ctx;
	struct gd_tables tables;
	struct gd_window page;
	struct gd_window copy;
	const gd_u64 *regs; /* of the innermost frame; null afterwards */
	gd_u64 pc;
	gd_u64 sp;
	gd_u64 bp;
	gd_u64 bx;
	gd_u32 copies;
	bool exact; /* pc is the next instruction to run, not a return address */
	bool edge;  /* at a function's first instruction, or at its last: the frame is a return address only */
};

static inline struct gd_window gd_stack_page(const struct gd_event *event, gd_u64 sp, bool elsewhere)
{
	gd_u64 size = GILK_PAGE - (sp & (GILK_PAGE - 1));

	if (event->copied)
		return (struct gd_window){sp - GD_RED_ZONE, event->copied, (const gd_u8 *)(event->regs + GD_REGS)};
	if (!HOST_IN_PLACE || elsewhere || size > GILK_PAGE - GD_STACK_EDGE)
		size = 0;
	return (struct gd_window){sp, size, (const gd_u8 *)sp};
}

static inline void gd_walk_begin(struct gd_walk *w, struct gd_context *ctx)
{
	const gd_u64 *regs = ctx->event->regs;

	w->ctx = ctx;
	w->regs = regs;
	w->copies = 0;
	w->exact = true;
	w->edge = ctx->event->edge;
	w->pc = regs ? regs[GD_PC] : 0;
	w->sp = regs ? regs[GD_SP] : 0;
	w->bp = regs ? regs[GD_BP] : 0;
	w->bx = regs ? regs[GD_BX] : 0;
	w->page = gd_stack_page(ctx->event, w->sp, ctx->no_memory);
	w->copy = (struct gd_window){0, 0, 0};
	gd_open_tables(ctx, &w->tables);
}

static inline bool gd_window_read(const struct gd_window *window, gd_u64 address, gd_u64 *to)
{
	gd_u64 at = address - window->low;

	if (window->size < 8 || at > window->size - 8)
		return false;
	*to = *(const gd_word *)(window->data + at);
	return true;
}

/* Copy the memory around an address, as far as it is mapped: saved registers lie below it, and frames above. */
static inline bool gd_fetch(struct gd_walk *w, gd_u64 address)
{
	gd_u64 low = address - w->sp < GD_RED_ZONE ? w->sp : address - GD_RED_ZONE;
	gd_u64 end = (low + GD_STACK_COPY) & -(gd_u64)GILK_PAGE;
	long got;

	if ((w->ctx->no_memory && !w->ctx->self) || w->copies++ >= GD_STACK_COPIES || end < low)
		return false;
	if (!w->copy.data)
		w->copy.data = gd_alloca(w->ctx, GD_STACK_COPY);
	if (!w->copy.data)
		return false;
	got = host_peek_some(gd_self(w->ctx), (void *)w->copy.data, low, end - low);
	w->copy.low = low;
	w->copy.size = got > 0 ? (gd_u64)got : 0;
	return w->copy.size != 0;
}

static inline bool gd_stack_read(struct gd_walk *w, gd_u64 address, gd_u64 *to)
{
	if (gd_window_read(&w->page, address, to) || gd_window_read(&w->copy, address, to))
		return true;
	return gd_fetch(w, address) && gd_window_read(&w->copy, address, to);
}

/*
 * Restore a register of the caller; one that cannot be read counts as unchanged. "From RBP" is the RBP of this frame.
 * GCC also uses it at the end of a realigned frame, where RBP is already the caller's.
 */
static inline void gd_restore(struct gd_walk *w, gu_saved saved, gd_u64 cfa, gd_u64 *reg)
{
	gd_u64 from = saved & 1 ? w->bp : cfa, value;

	if (!saved || (saved & 1 && w->bp - w->sp >= cfa - w->sp))
		return;
	if (gd_stack_read(w, from + (gd_u64)(gd_s64)(saved >> 1), &value))
		*reg = value;
}

/* The base register of a rule. RBX, RBP and RSP are known in every frame, the others in the innermost one only. */
static inline bool gd_base(struct gd_walk *w, gd_u32 reg, gd_u64 *value)
{
	if (reg == GD_SP)
		*value = w->sp;
	else if (reg == GD_BP)
		*value = w->bp;
	else if (reg == GD_BX)
		*value = w->bx;
	else if (w->regs && reg < 16)
		*value = w->regs[reg];
	else
		return false;
	return true;
}

static inline bool gd_cfa(struct gd_walk *w, const struct gu_rule *rule, gd_u64 *cfa)
{
	if (!gd_base(w, rule->base, cfa))
		return false;
	*cfa += (gd_u64)(gd_s64)rule->offset;
	if (rule->how != GU_DEREF)
		return true;
	if (!gd_stack_read(w, *cfa, cfa))
		return false;
	*cfa += (gd_u64)(gd_s64)rule->more;
	return true;
}

static inline bool gd_is_at(struct gd_walk *w, gd_u64 pc, gd_u64 sp, gd_u64 bp, gd_u64 bx)
{
	w->pc = pc;
	w->sp = sp;
	w->bp = bp;
	w->bx = bx;
	w->exact = false;
	w->edge = false;
	w->regs = 0;
	return pc != 0;
}

static inline bool gd_step_plain(struct gd_walk *w, const struct gu_rule *rule)
{
	gd_u64 cfa, pc, bp = w->bp, bx = w->bx;
	bool in_register = rule->how == GU_PLAIN && rule->more;

	if (!gd_cfa(w, rule, &cfa) || cfa <= w->sp - in_register)
		return false;
	if (in_register ? !gd_base(w, (gd_u32)rule->more - 1, &pc)
			: !gd_stack_read(w, cfa + (gd_u64)(gd_s64)rule->pc, &pc))
		return false;
	gd_restore(w, rule->bp, cfa, &bp);
	gd_restore(w, rule->bx, cfa, &bx);
	return gd_is_at(w, pc, cfa, bp, bx);
}

/* Step out of a signal frame. struct ucontext: uc_mcontext at 40 has r8 to r15, rdi rsi rbp rbx rdx rax rcx rsp rip. */
static inline bool gd_step_signal(struct gd_walk *w)
{
	gd_u64 pc, sp, bp, bx, regs = w->sp + 40;

	if (!gd_stack_read(w, regs + 10 * 8, &bp) || !gd_stack_read(w, regs + 11 * 8, &bx)
	    || !gd_stack_read(w, regs + 15 * 8, &sp) || !gd_stack_read(w, regs + 16 * 8, &pc))
		return false;
	gd_is_at(w, pc, sp, bp, bx);
	w->exact = true;
	return pc != 0;
}

/* Step by the frame pointer. The word above a saved frame pointer counts as a return address if it leads to code. */
static inline bool gd_step_pointer(struct gd_walk *w)
{
	gd_u64 at = w->edge ? w->sp : w->bp + 8, pc, bp = w->bp;

	if (!w->edge && (w->bp & 7 || w->bp < w->sp))
		return false;
	if (!gd_stack_read(w, at, &pc) || (!w->edge && !gd_stack_read(w, w->bp, &bp)))
		return false;
	if (!gd_find_module(&w->tables, pc)) {
		gd_unwind_head(w->ctx)->missed = 1;
		return false;
	}
	return gd_is_at(w, pc, at + 8, bp, w->bx);
}

/* Go to the caller's frame. Returns false if there is none, or it cannot be found. */
static inline bool gd_step(struct gd_walk *w)
{
	const struct gu_rule *rule;

	if (w->tables.size < sizeof(struct gu_head))
		return false;
	rule = gd_rule(&w->tables, w->pc - !w->exact);
	switch (rule ? rule->how : GU_NONE) {
	case GU_PLAIN:
	case GU_DEREF:
		return gd_step_plain(w, rule);
	case GU_SIGNAL:
		return gd_step_signal(w);
	case GU_END:
		return false;
	}
	return gd_step_pointer(w);
}

/* Store the addresses of at most `most` frames. Returns how many there are; if `to` is null they are only counted. */
static __attribute__((__noinline__, __unused__)) gd_u64 gd_walk_stack(struct gd_context *ctx, gd_u64 *to, gd_u64 most)
{
	struct gd_walk w;
	gd_u64 n = 0;

	gd_walk_begin(&w, ctx);
	if (!w.pc || !most)
		return 0;
	do {
		if (to)
			to[n] = w.pc;
	} while (++n < most && gd_step(&w));
	if (w.copy.data)
		ctx->scratch_used = (gd_u32)(w.copy.data - ctx->scratch);
	return n;
}

/* Record the user stack in at most `words` words. Returns how many bytes are used. */
static inline gd_u32 gd_take_ustack(struct gd_context *ctx, gd_u64 *to, gd_u64 words)
{
	to[0] = gd_whose(ctx);
	return (gd_u32)(gd_walk_stack(ctx, to + 1, words - 1) + 1) * 8;
}

static inline void gd_put_ustack(struct gd_context *ctx, gd_u64 *to, gd_u64 words)
{
	gd_u32 used = gd_take_ustack(ctx, to, words);

	gd_zero((gd_u8 *)to + used, words * 8 - used);
}

static inline gd_u64 gd_ustackdepth(struct gd_context *ctx)
{
	return gd_walk_stack(ctx, 0, GD_STACK_DEEPEST);
}

/* The return address of the innermost frame; 0: there is none. */
static inline gd_u64 gd_ucaller(struct gd_context *ctx)
{
	gd_u64 frames[2];

	return gd_walk_stack(ctx, frames, 2) < 2 ? 0 : frames[1];
}

#endif
