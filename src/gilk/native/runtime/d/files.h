/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The files that the thread's descriptors are of: fds[] of the D library.
 *
 * The host looks, and changes nothing: neither an offset nor a descriptor. In a sample, which is taken in another
 * process, nothing is known.
 *
 * Ownership: as in strings.h.
 */
#ifndef GILK_D_FILES_H
#define GILK_D_FILES_H

#include "strings.h"

static inline bool gd_has_fds(struct gd_context *ctx)
{
	return !(ctx->no_memory && ctx->self);
}

/* As /proc has it: a path, or "pipe:[1234]" and the like. */
static inline char *gd_fdpath(struct gd_context *ctx, char *to, gd_s64 fd)
{
	gd_s64 length = -1;

	if (fd >= 0 && fd <= 0x7fffffff && gd_has_fds(ctx))
		length = host_fd_path((gd_u32)fd, to, ctx->layout->strsize - 1);
	if (length < 0)
		return gd_strcpy(ctx, to, "<none>");
	to[length] = 0;
	return to;
}

/* 0 where there is none, as of a pipe. */
static inline gd_s64 gd_fdoffset(struct gd_context *ctx, gd_s64 fd)
{
	gd_s64 at = gd_has_fds(ctx) ? host_fd_offset((gd_u64)fd) : 0;

	return at < 0 ? 0 : at;
}

static inline gd_s64 gd_fdflags(struct gd_context *ctx, gd_s64 fd)
{
	gd_s64 flags = gd_has_fds(ctx) ? host_fd_flags((gd_u64)fd) : 0;

	return flags < 0 ? 0 : flags;
}

/* The number of the mount that the file is on, as in /proc/PID/mountinfo; 0 where it is not told, -1 of no descriptor. */
static inline gd_s64 gd_fdmount(struct gd_context *ctx, gd_s64 fd)
{
	return gd_has_fds(ctx) ? host_fd_mount((gd_u64)fd) : -1;
}

#endif
