/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Declarations of the runtime, which lies in an arena of the target. The client fills in
 * `gilk_params` through its write view before any code runs.
 */
#ifndef GILK_RUNTIME_H
#define GILK_RUNTIME_H

#include "../host/host.h"
#include "../include/gilk.h"

struct gilk_params {
	struct gilk_control *control; /* as mapped in the target */
	int *(*errno_location)(void); /* the target's, or null */
	gilk_u64 base;		      /* where this arena's code begins */
	gilk_u64 xstate;	      /* bytes that xsave needs on this processor */
	const struct gilk_places *places; /* null: signal handlers see addresses of patches */
	gilk_u32 inner, outer;	      /* the process's number in its own PID namespace, and in the client's */
	gilk_u64 side;		      /* start of the side stacks; 0: there are none */
	gilk_u64 advice;	      /* start of the stacks of advice, one for each block; 0: there are none */
	struct gilk_onward *onward;   /* the notes of calls that go on elsewhere */
};

extern struct gilk_params gilk_params;

/* The client's number for the process that calls itself `pid`. For a forked child that is `pid` itself. */
static inline gilk_u32 known_pid(gilk_u32 pid)
{
	return pid == gilk_params.inner ? gilk_params.outer : pid;
}

/* The parts (abi/gilk_abi.h) of a control page or of a block. */
static inline gilk_u64 *gilk_part(void *page)
{
	return (gilk_u64 *)((char *)page + GILK_PARTS_AT);
}

/* The control page of the client in the upper bits of `number`; our own if they are 0. */
static inline struct gilk_control *client_control(gilk_u32 number)
{
	struct gilk_control *control = gilk_params.control;
	gilk_u32 client = number >> GILK_IID_BITS;

	return client ? (struct gilk_control *)gilk_part(control)[client % GILK_PARTS] : control;
}

/* It lies in the private page below the code, which the kernel clears in a forked child. */
extern gilk_u64 gilk_key;

gilk_u32 gilk_claim(void);
void gilk_dispatch(struct gilk_regs *regs, const struct gilk_call *call, int calls_out);

#endif
