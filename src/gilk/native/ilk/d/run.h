/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The clauses of a program, and one run of them, as the helpers of checked code know them.
 *
 * Need: the types of the including file: u8, u32, u64, s64, bool. No kernel header: tests run helpers.c in user space too.
 */
#ifndef ILK_D_RUN_H
#define ILK_D_RUN_H

#include "../../abi/ilk_d_abi.h"
#include "../../runtime/d/context.h"

#define ILK_D_SCRATCH 4096 /* bytes that a clause may take, and move at once: costs of helpers count on it */
#define ILK_D_TO_WRITE (1ull << 63) /* in the address of what is missing, which is a process's */

struct ilk_images;

/* The deeds of a program in processes. `client`: the process that has loaded it. `stopped` as in struct ilk_d_status. */
struct ilk_deeds {
	u32 client;
	u32 stopped;
	u32 process[ILK_D_STOPPED];
};

/* All of it is the driver's own, and has been looked at. */
struct ilk_clauses {
	u8 *memory;
	struct gd_layout layout;
	struct ilk_d_program sizes; /* as the client gave them: how many of what follows */
	const struct ilk_d_aggregation *rows;
	const u64 *edges;
	const u32 *entry;
	const u32 *names;
	const char *constants;
	struct ilk_images *images; /* process.c; null in tests */
	struct ilk_deeds *deeds;
};

/* Where the tables of a message of ILK_D_PROGRAM are, which follow its fixed part. */
static inline void ilk_d_place_tables(struct ilk_clauses *c, const void *tables)
{
	c->rows = tables;
	c->edges = (const u64 *)(c->rows + c->sizes.rows);
	c->entry = (const u32 *)(c->edges + c->sizes.edges);
	c->names = c->entry + c->sizes.groups;
	c->constants = (const char *)(c->names + c->sizes.names);
}

/* One run of a group. The code knows its frame alone, which lies at the end: helpers find the rest before that. */
struct ilk_run {
	struct gd_context context;
	struct gd_event event;
	const struct ilk_clauses *clauses;
	bool always; /* also while the program is inactive */
	bool waits; /* a page of the process may be made present, and the group run again: unless it has done something */
	bool done; /* something that lasts */
	u64 missing; /* an address of the process that is not there, ILK_D_TO_WRITE if to be written; 0: none */
	bool reserved; /* a record is open, of `room` bytes */
	u32 room;
	u8 scratch[ILK_D_SCRATCH] __attribute__((aligned(8)));
	u8 between[ILK_D_SCRATCH]; /* on its way to a process */
	u64 frame[ILK_D_FRAME_MAX / 8];
};

/* A frame with an event in it; no clause has begun. `level`: what the event says besides (ilk_d_abi.h). */
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
