/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The state of clauses besides the memory that they share (abi/gilk_d.h): the event that calls them, and the context of
 * one execution of one clause.
 *
 * Ownership: both lie on the caller's stack.
 */
#ifndef GILK_D_CONTEXT_H
#define GILK_D_CONTEXT_H

#ifndef __KERNEL__ /* the kernel has a type bool */
#include <stdbool.h>
#endif

#include "../../abi/gilk_d.h"

#define GD_NO_CPU 0xffffffffU

/* The event that clauses are called with. toolchain/dprogram.py declares the same struct. */
struct gd_event {
	gd_u64 arg[10];
	gd_u64 time;   /* TSC; 0: not read yet (runtime/d/moment.h) */
	gd_u64 thread; /* identity, unlike that of any other thread that ever lived; the low 22 bits are the tid */
	gd_u32 probe;
	gd_u32 cpu; /* GD_NO_CPU: not read yet */
	gd_u32 pid;
	gd_u32 tid;
	gd_u64 edge; /* 1 at a function's entry or return: the call has only its return address on the stack */
	const gd_u64 *regs; /* as gilk_record_regs has them, or null */
	gd_u32 error;  /* errno of the system call that returns here; 0: none */
	gd_u32 copied; /* bytes of the stack that are copied behind the registers; 0: read the stack itself */
	const gd_u64 *local; /* variables of the function at the probe, as the clauses number them, or null */
};

/* One execution of a clause; it lies on the stack. gd_begin() fills it in, gd_end() commits or discards its record. */
struct gd_context {
	gd_u8 *memory;
	const struct gd_layout *layout;
	struct gd_event *event;
	gd_u8 *table;	/* the table of aggregations of this processor; null: not looked up yet */
	gd_u8 *data;	/* of the record that is being written; null: none */
	gd_u64 *mark;	/* the mark of that record; null while speculating */
	gd_u64 done;	/* the value of the mark once the record is complete */
	gd_u8 *scratch; /* null: no slot is claimed */
	const gd_u8 *local; /* clause-local variables; set only if the program has pointers into them */
	const char *token; /* where strtok(NULL, ...) goes on; null: nowhere */
	gd_u64 *signals; /* to send when all clauses have run: bit number - 1; set only if there may be any */
	gd_u64 address; /* of the fault */
	gd_u32 fault;	/* enum gd_fault; 0: none */
	gd_u32 speculation; /* the speculation that gets the records; 0: the principal buffer does */
	gd_u32 scratch_used;
	gd_u32 scratch_asked; /* bytes of it that the program has asked for by their size */
	gd_u32 scratch_slot;
	gd_u32 self; /* process number for host_peek(); 0: not read yet */
	gd_u32 no_memory; /* the probe fired in no process (BEGIN, tick): memory can be read only if self is set */
};

#endif
