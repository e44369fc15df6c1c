/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Strings that are paths: basename, dirname and cleanpath, as DTrace has them.
 *
 * Ownership: as in strings.h.
 */
#ifndef GILK_D_PATHS_H
#define GILK_D_PATHS_H

#include "strings.h"

/* Where what is left of `end` ends, when slashes at the end, or else all but slashes, are left out. */
static inline gd_u64 gd_before(const char *path, gd_u64 end, bool slashes)
{
	while (end && (path[end - 1] == '/') == slashes)
		end--;
	return end;
}

static inline char *gd_basename(struct gd_context *ctx, char *to, const char *path)
{
	gd_u64 all = gd_strlen(ctx, path), end = gd_before(path, all, true);
	gd_u64 start = gd_before(path, end, false);

	if (!all)
		return gd_strcpy(ctx, to, ".");
	if (!end)
		return gd_strcpy(ctx, to, "/");
	gd_append(ctx, to, 0, path + start, end - start);
	return to;
}

static inline char *gd_dirname(struct gd_context *ctx, char *to, const char *path)
{
	gd_u64 all = gd_strlen(ctx, path), end = gd_before(path, all, true);
	gd_u64 slash = gd_before(path, end, false), kept = gd_before(path, slash, true);

	if (!all || (end && !slash))
		return gd_strcpy(ctx, to, ".");
	if (!kept)
		return gd_strcpy(ctx, to, "/");
	gd_append(ctx, to, 0, path, kept);
	return to;
}

/* Back to the slash before the last component. */
static inline gd_u64 gd_up(const char *path, gd_u64 at)
{
	while (at && path[--at] != '/')
		;
	return at;
}

/*
 * "//" and "/./" become "/", and "/component/../" too. Only what lies between two slashes counts as ".",
 * but ".." may also come last.
 */
static inline char *gd_cleanpath(struct gd_context *ctx, char *to, const char *path)
{
	gd_u64 all = gd_strlen(ctx, path), i = 0, at = 0;

	while (i < all) {
		const char *p = path + i;
		gd_u64 left = all - i;

		if (p[0] == '/' && left > 1 && p[1] == '/') {
			i++;
		} else if (p[0] == '/' && left > 2 && p[1] == '.' && p[2] == '/') {
			i += 2;
		} else if (p[0] == '/' && left > 2 && p[1] == '.' && p[2] == '.' && (left == 3 || p[3] == '/')) {
			at = gd_up(to, at);
			i += 3;
			if (left == 3)
				at = gd_append(ctx, to, at, "/", 1);
		} else {
			at = gd_append(ctx, to, at, p, 1);
			i++;
		}
	}
	to[at] = 0;
	return to;
}

#endif
