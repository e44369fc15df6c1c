/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The state of clauses besides the memory that they share (abi/gilk_d.h): the event that they are called
 * with, and the context of one execution of one of them.
 *
 * Ownership: both are the caller's, on its stack.
 */
#ifndef GILK_D_CONTEXT_H
#define GILK_D_CONTEXT_H

#ifndef __KERNEL__ /* which has bool among its types */
#include <stdbool.h>
#endif

#include "../../abi/gilk_d.h"

#define GD_NO_CPU 0xffffffffU

/* What a clause is called with. toolchain/dprogram.py has it, too. */
struct gd_event {
	gd_u64 arg[10];
	gd_u64 time;   /* TSC; 0: not asked for yet, runtime/d/moment.h */
	gd_u64 thread; /* identity, of no other thread that ever was; the low 22 bits are tid */
	gd_u32 probe;
	gd_u32 cpu; /* or GD_NO_CPU: not asked for yet */
	gd_u32 pid;
	gd_u32 tid;
	gd_u64 edge; /* of a function: nothing but the return address is on the stack of this call */
	const gd_u64 *regs; /* as gilk_record_regs has them, or null */
	gd_u32 error;  /* of the system call that returns here; 0: none */
	gd_u32 copied; /* bytes of the stack, red zone first, that lie behind the registers; 0: it can be read in place */
};

/* One for each execution of a clause, on the stack; gd_begin() fills it in, gd_end() settles it. */
struct gd_context {
	gd_u8 *memory;
	const struct gd_layout *layout;
	struct gd_event *event;
	gd_u8 *table;	/* of aggregations: the one for this processor; null: not asked for yet */
	gd_u8 *data;	/* of the record that is being made; null: none */
	gd_u64 *mark;	/* that record's; null while speculating */
	gd_u64 done;	/* what the mark will be */
	gd_u8 *scratch; /* null: none claimed */
	const gd_u8 *local; /* clause-local variables; set only where the program has pointers into them */
	const char *token; /* where strtok(NULL, ...) goes on; null: nowhere */
	gd_u64 *signals; /* bit number - 1: to be sent when all clauses have run; set only where there may be any */
	gd_u64 address; /* of the fault */
	gd_u32 fault;	/* enum gd_fault; 0: none */
	gd_u32 speculation; /* records go to this one; 0: to the principal buffer */
	gd_u32 scratch_used;
	gd_u32 scratch_slot;
	gd_u32 self; /* process number for host_peek(); 0: not asked for yet */
	gd_u32 no_memory; /* no process fired the probe (BEGIN, tick): there is memory to read only if self is set */
};

#endif
