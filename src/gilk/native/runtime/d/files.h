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

#include "strings.h"

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

static inline gd_u64 gd_decimal(char *to, gd_u32 value)
{
	gd_u64 digits = 1, i;
	gd_u32 left;

	for (left = value; left >= 10; left /= 10)
		digits++;
	for (i = digits; i; value /= 10)
		to[--i] = (char)('0' + value % 10);
	to[digits] = 0;
	return digits;
}

/* As /proc has it: a path, or "pipe:[1234]" and the like. */
static inline char *gd_fdpath(struct gd_context *ctx, char *to, gd_s64 fd)
{
	char link[sizeof GD_FD_LINKS + 10];
	gd_s64 length = -1;

	if (fd >= 0 && fd <= 0x7fffffff && gd_has_fds(ctx)) {
		gd_bcopy(link, GD_FD_LINKS, sizeof GD_FD_LINKS - 1);
		gd_decimal(link + sizeof GD_FD_LINKS - 1, (gd_u32)fd);
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
	register struct gd_statx *to __asm__("r8");
	register long wanted __asm__("r10") = GD_STATX_MNT_ID;
	struct gd_statx found;
	long result;

	if (!gd_has_fds(ctx))
		return -1;
	to = &found;
	found.mask = 0;
	__asm__ volatile("syscall" /* statx */
			 : "=a"(result)
			 : "0"(332L), "D"(fd), "S"(""), "d"((long)GD_AT_EMPTY_PATH), "r"(wanted), "r"(to)
			 : "rcx", "r11", "memory");
	if (result)
		return result == -9 ? -1 : 0; /* EBADF */
	return found.mask & GD_STATX_MNT_ID ? (gd_s64)found.mount : 0;
}

#endif
