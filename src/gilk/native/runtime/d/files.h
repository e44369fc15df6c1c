/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the descriptors of the thread are of: fds[] of the D library.
 *
 * System calls that look, and change nothing: neither an offset nor a descriptor, and errno is libc's. In a sample,
 * which is taken in another process, nothing is known.
 *
 * Ownership: as in strings.h.
 */
#ifndef GILK_D_FILES_H
#define GILK_D_FILES_H

#include "numbers.h"

#define GD_FD_LINKS "/proc/thread-self/fd/"

enum {
	GD_SEEK_CUR = 1,
	GD_F_GETFL = 3,
	GD_AT_EMPTY_PATH = 0x1000,
	GD_STATX_MNT_ID = 0x1000, /* since Linux 5.8 */
};

static inline bool gd_has_fds(struct gd_context *ctx)
{
	return !(ctx->no_memory && ctx->self);
}

/* As /proc has it: a path, or "pipe:[1234]" and the like. */
static inline char *gd_fdpath(struct gd_context *ctx, char *to, gd_s64 fd)
{
	char link[sizeof GD_FD_LINKS + 10];
	struct gd_digits d;
	gd_s64 length = -1;

	if (fd >= 0 && fd <= 0x7fffffff && gd_has_fds(ctx)) {
		gd_bcopy(link, GD_FD_LINKS, sizeof GD_FD_LINKS - 1);
		gd_digits(&d, (gd_u64)fd, 10);
		gd_bcopy(link + sizeof GD_FD_LINKS - 1, d.text + d.at, sizeof d.text - d.at);
		link[sizeof GD_FD_LINKS - 1 + sizeof d.text - d.at] = 0;
		length = (gd_s64)host_syscall4(89, (gd_u64)link, (gd_u64)to, ctx->layout->strsize - 1, 0); /* readlink */
	}
	if (length < 0)
		return gd_strcpy(ctx, to, "<none>");
	to[length] = 0;
	return to;
}

/* 0 where there is none, as of a pipe. */
static inline gd_s64 gd_fdoffset(struct gd_context *ctx, gd_s64 fd)
{
	gd_s64 at = gd_has_fds(ctx) ? (gd_s64)host_syscall4(8, (gd_u64)fd, 0, GD_SEEK_CUR, 0) : 0; /* lseek */

	return at < 0 ? 0 : at;
}

static inline gd_s64 gd_fdflags(struct gd_context *ctx, gd_s64 fd)
{
	gd_s64 flags = gd_has_fds(ctx) ? (gd_s64)host_syscall4(72, (gd_u64)fd, GD_F_GETFL, 0, 0) : 0; /* fcntl */

	return flags < 0 ? 0 : flags;
}

struct gd_statx { /* struct statx, linux/stat.h, as far as it is of use here */
	gd_u32 mask;
	gd_u32 other[35];
	gd_u64 mount;
	gd_u64 rest[13];
};

/* The number of the mount that the file is on, as in /proc/PID/mountinfo; 0 where it is not told, -1 of no descriptor. */
static inline gd_s64 gd_fdmount(struct gd_context *ctx, gd_s64 fd)
{
	struct gd_statx found;
	gd_s64 result;

	if (!gd_has_fds(ctx))
		return -1;
	found.mask = 0;
	result = (gd_s64)host_syscall6(332, (gd_u64)fd, (gd_u64)"", GD_AT_EMPTY_PATH, GD_STATX_MNT_ID, (gd_u64)&found,
				       0); /* statx */
	if (result)
		return result == -9 ? -1 : 0; /* EBADF */
	return found.mask & GD_STATX_MNT_ID ? (gd_s64)found.mount : 0;
}

#endif
