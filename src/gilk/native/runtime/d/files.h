/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The files behind the process's descriptors: fds[] of the D library.
 *
 * The host only reads: it changes neither an offset nor a descriptor. In a sample, which the consumer takes from
 * outside of the process, nothing is known about them.
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

/* The file's name as in /proc/PID/fd: a path, or for example "pipe:[1234]". */
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

/* The offset of the descriptor; 0 if its file has none, as a pipe. */
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

/*
 * The number of the mount that the file is on, as in /proc/PID/mountinfo; 0 if unknown, -1 if the descriptor is not
 * open.
 */
static inline gd_s64 gd_fdmount(struct gd_context *ctx, gd_s64 fd)
{
	return gd_has_fds(ctx) ? host_fd_mount((gd_u64)fd) : -1;
}

#endif
