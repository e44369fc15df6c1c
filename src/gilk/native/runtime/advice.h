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
 * A function that ends in a jump to another one returns where that returns, and begins no call of it: the stack pointer
 * is the same. The other one's entry looks for calls that are over as every entry with advice does, for it may as well
 * be called, after somebody has left the first one. So a jump says beforehand that it is one: the activation is
 * `passed` on, and the entry that it leads to takes note, and leaves it alone. If that one has advice, too, there are
 * two activations with one stack pointer. The newer one returns first, and then again, for the older.
 *
 * Where functions return, jump on, or are jumped to, a patch has a *list* of the advice that may be about the call:
 * 32-bit distances, each from behind itself to a word with the address of a struct gilk_advice; 0 ends it.
 *
 * The activation whose advice runs is noted once more in the last word of the stack, which a child that the advice forks
 * has a copy of. The block is the parent's, who goes on meanwhile: so the child leaves it alone, and goes on without
 * the advice once that proceeds, or has come back.
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
	gilk_u64 number;  /* of the function, as its C knows it (include/gilk_calls.h) */
	const char *function, *image; /* their names */
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
	gilk_u64 passed; /* 1: the function has jumped to another one, whose entry is yet to come */
	gilk_u64 again;	 /* where a patch goes on, GILK_ADVICE_AGAIN bytes behind a jump to where it looks whose return it is */
	gilk_u64 frame;	 /* advice's own, while the function that it has called runs; 0 at first (include/gilk_aspect.h) */
	gilk_u64 caller; /* the return address */
	gilk_u64 key;	 /* the process has it at the entry: a child that the advice forks has another one, or 0 */
};

#define GILK_ADVICE_AGAIN 5

#define GILK_NO_ACTIVATION (~0UL)

/* Drop activations of calls that are over, as a call begins at stack pointer `rsp`. */
void gilk_advice_prune(gilk_u64 rsp);

/*
 * Whether the thread is in advice, although its stack pointer does not say so; if not, the advice was left behind, as by
 * longjmp out of it, or out of a handler that came meanwhile. The thread is on the program's own stack then, at or above
 * the call's return address, or below it where others have written over that: while advice runs the caller stands still.
 */
gilk_u32 gilk_advice_is_inside(gilk_u64 rsp);

/* The same at the entry of a function that others with advice may jump to. */
void gilk_advice_prune_reached(gilk_u64 rsp);

/* The newest activation of a call that returns at `rsp` with advice of the list, with newer ones dropped, or 0. */
struct gilk_activation *gilk_advice_find(gilk_u64 rsp, const int *list);

/* The call at `rsp`, if it has advice of the list, is about to jump to an entry; or, by the second, is not after all. */
void gilk_advice_pass_on(gilk_u64 rsp, const int *list);
void gilk_advice_keep(gilk_u64 rsp, const int *list);

#endif
