/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The facts that the kernel has of the thread: curlwpsinfo of the D library.
 *
 * The host looks, and changes nothing. In a sample, which is taken in another process, nothing is known.
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

/* As prctl(PR_SET_NAME) gave it, or execve(). */
static inline char *gd_threadname(struct gd_context *ctx, char *to)
{
	char name[16]; /* TASK_COMM_LEN */

	name[0] = 0;
	if (gd_is_in_thread(ctx) && host_thread_name(name) < 0)
		name[0] = 0;
	name[sizeof name - 1] = 0;
	return gd_strcpy(ctx, to, name);
}

/* From -20 to 19. */
static inline gd_s64 gd_threadnice(struct gd_context *ctx)
{
	return gd_is_in_thread(ctx) ? host_thread_nice() : 0;
}

/* As the kernel has it: 120 and the niceness, 99 less a priority of real time, -1 of one with a deadline. */
static inline gd_s64 gd_threadpriority(struct gd_context *ctx)
{
	return gd_is_in_thread(ctx) ? host_thread_priority() : 0;
}

#endif
