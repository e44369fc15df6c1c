/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Advice on calls: a C function that runs before a function of the program, in its place, or after it.
 *
 * At the entry the thunk pushes an *activation* with all registers onto a separate stack, the thread's stack of advice,
 * and runs the advice on that stack. When the advice proceeds, its registers stay there; the thread goes back to the
 * program's stack and enters the function, which finds everything as its caller has left it, the return address
 * included. At a return the stack pointer tells which activation it ends: the newest one that was entered with that
 * stack pointer. So gilk has nothing on the program's stack while the program runs. A function that is left in another
 * way (longjmp, an exception, the end of a thread) leaves its activation behind; it is dropped when a call begins at or
 * above the function's frame. Until then it may look like a call under way. So a session whose advice asks which calls
 * are under way has patches at the entries of the functions that leave others, and these mark the activations as left.
 *
 * A function that ends in a jump to another function (a tail call) returns where that one returns, with the same stack
 * pointer. Every entry with advice drops activations of calls that are over, and at the entry of the other function a
 * tail call looks like a new call after the first function was left. So the jump is announced: a patch in front of it
 * marks the activation as `passed`, and the entry keeps a marked activation. If the other function has advice, too, two
 * activations have the same stack pointer; the newer one returns first, and then the older one.
 *
 * A patch at a return, at a tail call, or at the target of one has a *list* of the advice that the call may have:
 * 32-bit distances, each from its own end to a word that has the address of a struct gilk_advice; 0 ends the list.
 *
 * Advice that never calls the function is *brief*: its activation is not linked, as it is over before anything else can
 * begin or return in the thread.
 *
 * The last word of the stack also has the activation whose advice runs: a child that the advice forks has a copy of it.
 * The block belongs to the parent, which goes on using it. So the child does not touch the block, and goes on without
 * advice once its advice has proceeded or returned.
 *
 * `running` is 1 while the thread switches between the stacks: a signal handler that runs then finds the thread busy,
 * and its calls run without advice.
 */
#ifndef GILK_ADVICE_H
#define GILK_ADVICE_H

#include "runtime.h"

/* The advice of one function, as patches refer to it. It lies in an arena and does not change. */
struct gilk_advice {
	gilk_u64 entry;	  /* of the C function */
	gilk_u32 stack;	  /* bytes of arguments on the stack; for a variadic function, of its named parameters */
	gilk_u32 flags;	  /* enum gilk_advice_flags */
	gilk_u32 more;	  /* further bytes of the stack that the advice is given, for variadic functions */
	gilk_u8 results;  /* registers that hold the result: 1 rax, 2 rdx, 4 xmm0, 8 xmm1 */
	gilk_u8 integers; /* how many general registers hold arguments, from rdi on */
	gilk_u8 vectors;  /* how many vector registers hold arguments, from xmm0 on */
	gilk_u8 unused;
	gilk_u64 number;  /* the number by which the advice's C knows the function (include/gilk_calls.h) */
	const char *function, *image; /* their names */
	gilk_u64 address; /* of the function */
};

enum gilk_advice_flags {
	GILK_ADVICE_VECTORS = 1, /* the advice, or a function that it calls, uses vector registers */
	GILK_ADVICE_GOES_ON = 2, /* when the advice has returned, the call goes on */
};

struct gilk_activation {
	struct gilk_activation *previous;
	gilk_u64 rsp;	 /* the program's stack pointer at the entry; it points at the return address */
	const struct gilk_advice *advice;
	gilk_u64 resume; /* where the function continues, after the instruments of its entry */
	gilk_u64 side;	 /* the advice's stack pointer while it waits in proceed() */
	gilk_u64 shown;	 /* struct gilk_advising, while this activation is the newest */
	gilk_u64 before; /* the value of `next` before this activation */
	gilk_u64 kept;	 /* scratch; of brief advice, not 0 if the call goes on behind it */
	gilk_u64 reg[15]; /* at the entry: rax rcx rdx rbx rbp rsi rdi r8..r15 */
	gilk_u64 vectors; /* area of xsave with those of the entry, or 0 */
	gilk_u64 arguments; /* copy of the arguments on the stack, as they came */
	gilk_u64 control; /* saved mxcsr */
	gilk_u64 passed; /* 1: the function has jumped to another one, whose entry is yet to come */
	gilk_u64 again;	 /* where the patch continues; its jump to the next lookup is GILK_ADVICE_AGAIN before */
	gilk_u64 frame;	 /* the advice's own, while the function runs; 0 at first (include/gilk_aspect.h) */
	gilk_u64 caller; /* the return address; 0 once the call was left by a jump, and `frame` is 0, too */
	gilk_u64 key;	 /* the process's key at the entry; a child that the advice forks has another one, or 0 */
};

#define GILK_ADVICE_AGAIN 5

#define GILK_NO_ACTIVATION (~0UL)

/* Whether a call that begins at `rsp` shows that the older call, which began at `older`, is over. */
int gilk_advice_is_over(const struct host_stack *other, gilk_u64 older, gilk_u64 rsp);

/* Drop the activations whose calls must be over because a call begins at stack pointer `rsp`. */
void gilk_advice_prune(gilk_u64 rsp);

/*
 * Whether the thread is within advice although its stack pointer is elsewhere. If not, the advice was left by a jump,
 * as by longjmp() in it or in a signal handler. Then the thread is on the program's own stack, at or above the call's
 * return address, or below it and the return address is overwritten: while advice runs, its caller stands still.
 */
gilk_u32 gilk_advice_is_inside(gilk_u64 rsp);

/* The same as gilk_advice_prune() at the entry of a function to which functions with advice may jump. */
void gilk_advice_prune_reached(gilk_u64 rsp);

/*
 * Mark the calls as left that longjmp() leaves: it is about to set the stack pointer to `to`. `raw` is the same word as
 * it lies in the jmp_buf, for C libraries that do not encode it.
 */
void gilk_advice_longjmp(gilk_u64 to, gilk_u64 raw);

/* The same for an exception whose handler, or whose clean-up, begins with the stack pointer `to`. */
void gilk_advice_unwound(gilk_u64 to);

/* The newest activation that returns at `rsp` and whose advice is in the list, or 0. Drops all newer activations. */
struct gilk_activation *gilk_advice_find(gilk_u64 rsp, const int *list);

/*
 * Mark the call at `rsp`, if its advice is in the list: it is about to jump to an entry. The second one takes that
 * back.
 */
void gilk_advice_pass_on(gilk_u64 rsp, const int *list);
void gilk_advice_keep(gilk_u64 rsp, const int *list);

#endif
