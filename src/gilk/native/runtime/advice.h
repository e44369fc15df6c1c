/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Advice on calls: a C function that runs before a function of the program, in its place, or after it.
 *
 * At the entry an *activation* goes onto the advice's own stack of the thread, with all registers as they are there,
 * and the advice runs on that stack, behind it. When it proceeds, its registers stay there, the thread goes back to
 * the program's stack, and on into the function, which finds everything as its caller has left it, the return address
 * included. Where the function returns, the stack pointer says whose return it is: that of the newest activation that
 * was entered with it. So nothing of gilk's is ever on the program's stack while the program runs. Whoever leaves
 * a function by another way (longjmp, an exception, the end of a thread) leaves its activation behind; it is dropped
 * when a call comes that begins where the function's frame was, or above.
 *
 * `running` is 1 on the way from one stack to the other: a handler of a signal that comes then finds that the thread
 * is busy, and calls that it makes go without advice.
 */
#ifndef GILK_ADVICE_H
#define GILK_ADVICE_H

#include "runtime.h"

/* One function's advice, as patches and their entries know it; it lies in an arena and does not change. */
struct gilk_advice {
	gilk_u64 entry;	  /* of the C function */
	gilk_u32 stack;	  /* bytes of the arguments that lie on the stack; of a variadic function, those it names */
	gilk_u32 flags;	  /* enum gilk_advice_flags */
	gilk_u32 more;	  /* bytes of the stack that the advice is given besides, for variadic functions */
	gilk_u8 results;  /* registers of the result: 1 rax, 2 rdx, 4 xmm0, 8 xmm1 */
	gilk_u8 integers; /* general registers that arguments are in, from rdi on */
	gilk_u8 vectors;  /* vector registers that arguments are in, from xmm0 on */
	gilk_u8 unused;
};

enum gilk_advice_flags {
	GILK_ADVICE_VECTORS = 1, /* the advice, or what it calls, uses vector registers */
	GILK_ADVICE_GOES_ON = 2, /* when it has come back, the call goes on */
};

struct gilk_activation {
	struct gilk_activation *previous;
	gilk_u64 rsp;	 /* of the program at the entry: there lies the return address */
	const struct gilk_advice *advice;
	gilk_u64 resume; /* where the function goes on, behind the instruments of its entry */
	gilk_u64 side;	 /* the advice's stack pointer while it waits for what it has called by proceed() */
	gilk_u64 shown;	 /* struct gilk_advising, while this is the newest */
	gilk_u64 before; /* `next` before this one */
	gilk_u64 kept;	 /* scratch */
	gilk_u64 reg[15]; /* at the entry: rax rcx rdx rbx rbp rsi rdi r8..r15 */
	gilk_u64 vectors; /* area of xsave with those of the entry, or 0 */
	gilk_u64 arguments; /* copy of those on the stack, as they came */
	gilk_u64 control; /* mxcsr, meanwhile */
	gilk_u64 frame;	 /* advice's own, while the function that it has called runs; 0 at first (include/gilk_aspect.h) */
};

#define GILK_NO_ACTIVATION (~0UL)

/* Drop activations of calls that are over, as a call begins at stack pointer `rsp`. */
void gilk_advice_prune(gilk_u64 rsp);

/* Whether the thread is in advice, although its stack pointer does not say so; if not, the advice was left behind. */
gilk_u32 gilk_advice_is_inside(gilk_u64 rsp);

/* The activation of a call that returns at `rsp`, with newer ones dropped, or 0. */
struct gilk_activation *gilk_advice_find(gilk_u64 rsp, const struct gilk_advice *advice);

#endif
