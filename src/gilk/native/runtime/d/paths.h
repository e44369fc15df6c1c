/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * basename(), dirname() and cleanpath(), as DTrace has them.
 *
 * Ownership: as in strings.h.
 */
#ifndef GILK_D_PATHS_H
#define GILK_D_PATHS_H

#include "strings.h"

/*
 * The new end of `path` when trailing slashes are removed (`slashes`), or else all trailing characters that are not
 * slashes.
 */
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

/* How many bytes lie between `i` and the next slash of `path`, or its end at `all`. */
static inline gd_u64 gd_to_slash(const char *path, gd_u64 i, gd_u64 all)
{
	gd_u64 end = i;

	while (end < all && path[end] != '/') {
		end++;
		GD_LOOP();
	}
	return end - i;
}

/* The length of `path`, of `at` bytes, without its last component. The first `least` bytes are kept. */
static inline gd_u64 gd_up(const char *path, gd_u64 at, gd_u64 least)
{
	while (at > least && path[at - 1] != '/')
		at--;
	return at > least ? at - 1 : at;
}

static inline gd_u64 gd_component(struct gd_context *ctx, char *to, gd_u64 at, const char *part, gd_u64 length)
{
	if (at && to[at - 1] != '/')
		at = gd_append(ctx, to, at, "/", 1);
	return gd_append(ctx, to, at, part, length);
}

/*
 * The shortest form of a path: "." and empty components are removed, and so is each "component/..". A ".." at the root
 * is removed, one at the start of a relative path is kept. A relative path of which nothing is left becomes "."; an
 * empty path stays empty.
 */
static inline char *gd_cleanpath(struct gd_context *ctx, char *to, const char *path)
{
	gd_u64 all = gd_strlen(ctx, path), i = 0, at, least, length;
	bool rooted = all && path[0] == '/';

	at = least = gd_append(ctx, to, 0, "/", rooted);
	for (; i < all; i += length + 1) {
		const char *part = path + i;
		bool up;

		length = gd_to_slash(path, i, all);
		up = length == 2 && part[0] == '.' && part[1] == '.';
		if (!length || (length == 1 && part[0] == '.'))
			continue;
		if (up && (rooted || at > least)) {
			at = gd_up(to, at, least);
			continue;
		}
		at = gd_component(ctx, to, at, part, length);
		least = up ? at : least;
	}
	if (all && !at)
		at = gd_append(ctx, to, at, ".", 1);
	to[at] = 0;
	return to;
}

#endif
