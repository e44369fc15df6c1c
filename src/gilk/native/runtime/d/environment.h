/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Facts about the process that a clause runs in, as the consumer has found them.
 *
 * Ownership: the consumer writes the environment before the first clause runs in the process. It lies at the start of
 * the globals or, where several processes share these, in memory of the one process (D_ENVIRONMENT bytes from the
 * globals).
 */
#ifndef GILK_D_ENVIRONMENT_H
#define GILK_D_ENVIRONMENT_H

#include "context.h"

#define GD_ANCESTORS 16

struct gd_environment {
	gd_u64 tsc;  /* a reading of the TSC; the next member is the same time in ns since the machine started */
	gd_u64 ns;
	gd_u64 wall; /* the same time in ns since 1970 */
	gd_u32 mult; /* ns of a tick, times 2 ** shift */
	gd_u32 shift;
	gd_u32 ppid;
	gd_u32 uid;
	gd_u32 gid;
	gd_u32 euid;
	gd_u32 egid;
	gd_u32 program; /* the number of the program, where there are several */
	char execname[64];
	char root[256];
	/*
	 * Process numbers of the process and of the client: itself, its parent and so on, ended by 0; the
	 * nearest and the last if there are many.
	 */
	gd_u32 ancestors[2][GD_ANCESTORS];
};

static inline const struct gd_environment *gd_environment(struct gd_context *c)
{
#ifdef D_ENVIRONMENT
	return (const struct gd_environment *)(c->memory + D_ENVIRONMENT);
#else
	return (const struct gd_environment *)(c->memory + c->layout->globals);
#endif
}

/* The key by which the consumer looks up names: the process, and in the upper half the program that it runs. */
static inline gd_u64 gd_whose(struct gd_context *c)
{
#ifdef D_ENVIRONMENT
	return (gd_u64)gd_environment(c)->program << 32 | c->event->pid;
#else
	return c->event->pid;
#endif
}

#endif
