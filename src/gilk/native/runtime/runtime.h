/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The runtime's own names. It lies in an arena of the target; the client fills
 * in `gilk_params` through its write view before any code runs.
 */
#ifndef GILK_RUNTIME_H
#define GILK_RUNTIME_H

#include "../host/host.h"
#include "../include/gilk.h"

struct gilk_params {
	struct gilk_control *control; /* as mapped in the target */
	int *(*errno_location)(void); /* the target's, or null */
	gilk_u64 base;		      /* where this arena's code begins */
	gilk_u64 xstate;	      /* bytes that xsave needs here */
	const struct gilk_places *places; /* or null: handlers see addresses of patches */
	gilk_u32 inner, outer;	      /* the process's number: where it is itself, and where the client is */
	gilk_u64 side;		      /* where side stacks begin, or 0: there are none */
	gilk_u64 advice;	      /* where the stacks of advice begin, one for each block, or 0: there are none */
};

extern struct gilk_params gilk_params;

/* By which number the client knows the process that calls itself `pid`; of a forked child it knows no other. */
static inline gilk_u32 known_pid(gilk_u32 pid)
{
	return pid == gilk_params.inner ? gilk_params.outer : pid;
}

/* The parts, of a control page or of a block. */
static inline gilk_u64 *gilk_part(void *page)
{
	return (gilk_u64 *)((char *)page + GILK_PARTS_AT);
}

/* The control page of the client whose number is above the iid; ours where none is. */
static inline struct gilk_control *client_control(gilk_u32 number)
{
	struct gilk_control *control = gilk_params.control;
	gilk_u32 client = number >> GILK_IID_BITS;

	return client ? (struct gilk_control *)gilk_part(control)[client % GILK_PARTS] : control;
}

/* In the private page below the code; the kernel zeroes it in a forked child. */
extern gilk_u64 gilk_key;

gilk_u32 gilk_claim(void);
void gilk_dispatch(struct gilk_regs *regs, const struct gilk_call *call, int calls_out);

#endif
