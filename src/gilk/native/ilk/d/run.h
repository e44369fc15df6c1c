/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The clauses of a program, and one run of them, as the helpers of checked code know them.
 *
 * Need: the types of the including file: u8, u32, u64, s64, bool. No kernel header: tests run helpers.c in user space
 * too.
 */
#ifndef ILK_D_RUN_H
#define ILK_D_RUN_H

#include "../../abi/ilk_d_abi.h"
#include "../../runtime/d/context.h"

#define ILK_D_SCRATCH 4096 /* bytes that a clause may allocate, and move at once; costs of helpers count on it */
#define ILK_D_TO_WRITE (1ull << 63) /* set in a missing user address that is to be written to */

struct ilk_images;

/* Destructive actions of a program. `client`: the process that has loaded it. `stopped`: see struct ilk_d_status. */
struct ilk_deeds {
	u32 client;
	u32 stopped;
	u32 process[ILK_D_STOPPED];
};

/* The clauses of a program. All of it lies in the driver's memory, and has been checked. */
struct ilk_clauses {
	u8 *memory;
	struct gd_layout layout;
	struct ilk_d_program sizes; /* the client's message, with the sizes of the tables that follow */
	const struct ilk_d_aggregation *rows;
	const u64 *edges;
	const u32 *entry;
	const u32 *names;
	const char *constants;
	struct ilk_images *images; /* process.c; null in tests */
	struct ilk_deeds *deeds;
};

/* Set the addresses of the tables that follow the fixed part of a message ILK_D_PROGRAM. */
static inline void ilk_d_place_tables(struct ilk_clauses *c, const void *tables)
{
	c->rows = tables;
	c->edges = (const u64 *)(c->rows + c->sizes.rows);
	c->entry = (const u32 *)(c->edges + c->sizes.edges);
	c->names = c->entry + c->sizes.groups;
	c->constants = (const char *)(c->names + c->sizes.names);
}

/*
 * One run of a group. Checked code has the address of `frame`, which lies at the end; helpers find the rest before it.
 */
struct ilk_run {
	struct gd_context context;
	struct gd_event event;
	const struct ilk_clauses *clauses;
	bool always; /* run also while the program is inactive */
	bool waits; /* a page may be made present, and the group run again, unless it is `done` */
	bool done; /* it has had a lasting effect */
	u64 missing; /* a user address that is not mapped, with ILK_D_TO_WRITE if it is to be written; 0: none */
	bool reserved; /* a record is open, of `room` bytes */
	u32 room;
	u8 scratch[ILK_D_SCRATCH] __attribute__((aligned(8)));
	u8 between[ILK_D_SCRATCH]; /* bytes on their way to a process */
	u64 frame[ILK_D_FRAME_MAX / 8];
};

/* Begin a run: the frame gets the event, and no clause has begun. `level`: further facts of the event (ilk_d_abi.h). */
static inline void ilk_d_begin(struct ilk_run *run, const struct ilk_clauses *clauses, const u64 *arg, bool always,
			       u32 level)
{
	struct ilk_d_event *head = (struct ilk_d_event *)run->frame;

	run->clauses = clauses;
	run->always = always;
	run->waits = false;
	run->done = false;
	run->missing = 0;
	run->reserved = false;
	head->arg[0] = arg[0];
	head->arg[1] = arg[1];
	head->arg[2] = arg[2];
	head->arg[3] = arg[3];
	head->arg[4] = arg[4];
	head->arg[5] = arg[5];
	head->arg[6] = arg[6];
	head->arg[7] = arg[7];
	head->arg[8] = arg[8];
	head->arg[9] = arg[9];
	head->pid = (__s32)run->event.pid;
	head->tid = (__s32)run->event.tid;
	head->cpu = (__s32)run->event.cpu;
	head->probe = run->event.probe;
	head->error = (__s32)run->event.error;
	head->level = level;
}

#endif
