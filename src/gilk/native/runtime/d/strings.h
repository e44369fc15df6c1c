/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Strings: ended by NUL, and cut off after strsize bytes. Offsets and lengths have the meaning
 * that they have in DTrace, and so in Perl.
 *
 * Ownership: all buffers belong to the caller; results point into them.
 */
#ifndef GILK_D_STRINGS_H
#define GILK_D_STRINGS_H

#include "base.h"

static inline gd_u64 gd_strlen(struct gd_context *ctx, const char *text)
{
	gd_u64 n = 0;

	while (n < ctx->layout->strsize && text[n]) {
		n++;
		GD_LOOP();
	}
	return n;
}

/* text + by; the empty string behind its end. */
static inline const char *gd_after(struct gd_context *ctx, const char *text, gd_s64 by)
{
	gd_s64 all;

	if (!text || by < 0) {
		gd_fail(ctx, GD_FAULT_ADDRESS, (gd_u64)by);
		return 0;
	}
	all = (gd_s64)gd_strlen(ctx, text);
	return text + (by < all ? by : all);
}

/* text[index]; 0 behind its end; a fault if the index is beyond any string. */
static inline char gd_character(struct gd_context *ctx, const char *text, gd_u64 index)
{
	gd_u64 i = 0;

	if (!text || index >= ctx->layout->strsize) {
		gd_fail(ctx, GD_FAULT_ADDRESS, index);
		return 0;
	}
	while (i < index && text[i]) {
		i++;
		GD_LOOP();
	}
	return text[i];
}

static inline int gd_strcmp(struct gd_context *ctx, const char *a, const char *b)
{
	gd_u64 i;

	for (i = 0; i < ctx->layout->strsize; i++) {
		if (a[i] != b[i])
			return (gd_u8)a[i] < (gd_u8)b[i] ? -1 : 1;
		if (!a[i])
			break;
	}
	return 0;
}

/* The same for strings that may be NULL, which is less than any other. */
static inline int gd_compare(struct gd_context *ctx, const char *a, const char *b)
{
	if (!a || !b)
		return (a != 0) - (b != 0);
	return gd_strcmp(ctx, a, b);
}

/* Append `text` to a string of `at` bytes. Returns its new length without the NUL. */
static inline gd_u64 gd_append(struct gd_context *ctx, char *to, gd_u64 at, const char *text, gd_u64 length)
{
	gd_u64 i;

	for (i = 0; i < length && text[i] && at + 1 < ctx->layout->strsize; i++) {
		to[at++] = text[i];
		GD_LOOP();
	}
	to[at] = 0;
	return at;
}

/* Zero all bytes behind the NUL, for a string that is a part of a key. */
static inline void gd_strpad(char *text, gd_u64 size)
{
	gd_u64 i = 0;

	while (i < size && text[i])
		i++;
	for (; i < size; i++) {
		text[i] = 0;
		GD_LOOP();
	}
}

static inline char *gd_strcpy(struct gd_context *ctx, char *to, const char *from)
{
	gd_append(ctx, to, 0, from, ctx->layout->strsize);
	return to;
}

static inline char *gd_strjoin(struct gd_context *ctx, char *to, const char *a, const char *b)
{
	gd_u64 at = gd_append(ctx, to, 0, a, ctx->layout->strsize);

	gd_append(ctx, to, at, b, ctx->layout->strsize);
	return to;
}

/* substr(text, index): length is strsize. */
static inline char *gd_substr(struct gd_context *ctx, char *to, const char *text, gd_s64 index, gd_s64 length)
{
	gd_s64 all = (gd_s64)gd_strlen(ctx, text), size = (gd_s64)ctx->layout->strsize;

	if (length > size)
		length = size;
	if (index < 0) {
		index = index < -size ? -size - 1 : index; /* keeps the sums below from overflowing */
		length = length < -size ? -size : length;
		index += all;
		if (index < 0 && index + length > 0) {
			length += index;
			index = 0;
		}
	}
	if (index >= all || index < 0)
		length = 0;
	else if (length < 0)
		length = length < -size ? 0 : length + all - index;
	gd_append(ctx, to, 0, length > 0 ? text + index : "", length > 0 ? (gd_u64)length : 0);
	return to;
}

static inline bool gd_begins(const char *text, const char *with, gd_u64 length)
{
	gd_u64 i;

	for (i = 0; i < length; i++)
		if (text[i] != with[i])
			return false; /* the end of `text` is reached */
	return true;
}

/* index(text, part): start is 0. -1: not there. */
static inline gd_s64 gd_index(struct gd_context *ctx, const char *text, const char *part, gd_s64 start)
{
	gd_s64 all = (gd_s64)gd_strlen(ctx, text), length = (gd_s64)gd_strlen(ctx, part), at;

	if (!length)
		return start < 0 ? 0 : start < all ? start : all;
	for (at = start < 0 ? 0 : start; at <= all - length; at++)
		if (gd_begins(text + at, part, (gd_u64)length))
			return at;
	return -1;
}

/* rindex(text, part): start is strsize. */
static inline gd_s64 gd_rindex(struct gd_context *ctx, const char *text, const char *part, gd_s64 start)
{
	gd_s64 all = (gd_s64)gd_strlen(ctx, text), length = (gd_s64)gd_strlen(ctx, part), at;

	if (!length)
		return start < 0 ? 0 : start < all ? start : all;
	for (at = start < all - length ? start : all - length; at >= 0; at--)
		if (gd_begins(text + at, part, (gd_u64)length))
			return at;
	return -1;
}

/* These three return null where DTrace returns NULL. */
static inline char *gd_strchr(struct gd_context *ctx, const char *text, int wanted)
{
	gd_u64 i, all = gd_strlen(ctx, text);

	for (i = 0; i <= all && i < ctx->layout->strsize; i++)
		if (text[i] == (char)wanted)
			return (char *)text + i;
	return 0;
}

static inline char *gd_strrchr(struct gd_context *ctx, const char *text, int wanted)
{
	gd_u64 i;

	for (i = gd_strlen(ctx, text) + 1; i > 0; i--)
		if (i <= ctx->layout->strsize && text[i - 1] == (char)wanted)
			return (char *)text + i - 1;
	return 0;
}

static inline char *gd_strstr(struct gd_context *ctx, const char *text, const char *part)
{
	gd_s64 at = gd_index(ctx, text, part, 0);

	return at < 0 ? 0 : (char *)text + at;
}

static inline bool gd_among(struct gd_context *ctx, const char *set, char c)
{
	gd_u64 i;

	for (i = 0; i < ctx->layout->strsize && set[i]; i++)
		if (set[i] == c)
			return true;
	return false;
}

/*
 * The next token; null: none is left. If `text` is null, go on in the text of the clause's last call, which must still
 * exist.
 */
static inline char *gd_strtok(struct gd_context *ctx, char *to, const char *text, const char *between)
{
	gd_u64 i = 0, n = 0, all;

	text = text ? text : ctx->token;
	ctx->token = 0;
	if (!text)
		return 0;
	all = gd_strlen(ctx, text);
	while (i < all && gd_among(ctx, between, text[i]))
		i++;
	if (i == all)
		return 0;
	while (i + n < all && !gd_among(ctx, between, text[i + n]))
		n++;
	gd_append(ctx, to, 0, text + i, n);
	if (i + n < all)
		ctx->token = text + i + n; /* at the separator, which may be none for the next call */
	return to;
}

/* The same; the rest of the text is stored in `keep`, of strsize bytes, for clauses that follow. */
static inline char *gd_strtok_kept(struct gd_context *ctx, char *to, const char *text, const char *between, char *keep)
{
	char *got;

	ctx->token = *keep ? keep : 0;
	got = gd_strtok(ctx, to, text, between);
	if (ctx->token)
		gd_append(ctx, keep, 0, ctx->token, ctx->layout->strsize); /* may overlap: `keep` */
	else
		*keep = 0;
	ctx->token = 0;
	return got;
}

static inline char *gd_change_case(struct gd_context *ctx, char *to, const char *text, char first)
{
	gd_u64 i, n = gd_append(ctx, to, 0, text, ctx->layout->strsize);

	for (i = 0; i < n; i++)
		if (to[i] >= first && to[i] < first + 26)
			to[i] ^= 0x20;
	return to;
}

static inline char *gd_toupper(struct gd_context *ctx, char *to, const char *text)
{
	return gd_change_case(ctx, to, text, 'a');
}

static inline char *gd_tolower(struct gd_context *ctx, char *to, const char *text)
{
	return gd_change_case(ctx, to, text, 'A');
}

#endif
