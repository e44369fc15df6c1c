/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Facts that the kernel has about the thread: curlwpsinfo of the D library.
 *
 * The host only reads. In a sample, which the consumer takes from outside of the process, nothing is known.
 *
 * Ownership: as in strings.h.
 */
#ifndef GILK_D_THREAD_H
#define GILK_D_THREAD_H

#include "strings.h"

static inline bool gd_is_in_thread(struct gd_context *ctx)
{
	return !(ctx->no_memory && ctx->self);
}

/* The thread's name, as set by prctl(PR_SET_NAME) or execve(). */
static inline char *gd_threadname(struct gd_context *ctx, char *to)
{
	char name[16]; /* TASK_COMM_LEN */

	name[0] = 0;
	if (gd_is_in_thread(ctx) && host_thread_name(name) < 0)
		name[0] = 0;
	name[sizeof name - 1] = 0;
	return gd_strcpy(ctx, to, name);
}

/* The thread's niceness, -20 to 19. */
static inline gd_s64 gd_threadnice(struct gd_context *ctx)
{
	return gd_is_in_thread(ctx) ? host_thread_nice() : 0;
}

/* The kernel's priority: 120 plus the niceness, or 99 minus a real-time priority, or -1 under SCHED_DEADLINE. */
static inline gd_s64 gd_threadpriority(struct gd_context *ctx)
{
	return gd_is_in_thread(ctx) ? host_thread_priority() : 0;
}

#endif
