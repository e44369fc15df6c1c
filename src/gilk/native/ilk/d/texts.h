/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers for strings: D's subroutines, on strings that lie in the frame.
 *
 * Each string has strsize bytes there, and the runtime stops at its end or after so many bytes, so it stays in the
 * frame whatever the string contains. Results are filled up with zeroes.
 */
#ifndef ILK_D_TEXTS_H
#define ILK_D_TEXTS_H

#include "places.h"

/* The string at an offset in the frame; null: it does not lie there, and the clause has a fault. */
static char *text_at(struct ilk_run *run, u64 place, u64 size)
{
	if (size != run->clauses->layout.strsize) {
		gd_fail(&run->context, GD_FAULT_ILLEGAL, size);
		return 0;
	}
	return at(run, place, size);
}

static u64 made(struct ilk_run *run, char *to)
{
	gd_strpad(to, run->clauses->layout.strsize);
	return !run->context.fault;
}

HELPER(strlen)
{
	struct ilk_run *run = run_of(frame);
	const char *text = text_at(run, a, b);

	return text ? gd_strlen(&run->context, text) : 0;
}

HELPER(strjoin)
{
	struct ilk_run *run = run_of(frame);
	char *to = text_at(run, a, d);
	const char *left = text_at(run, b, d), *right = text_at(run, c, d);

	return to && left && right && made(run, gd_strjoin(&run->context, to, left, right));
}

HELPER(substr)
{
	struct ilk_run *run = run_of(frame);
	char *to = text_at(run, a, e);
	const char *text = text_at(run, b, e);

	return to && text && made(run, gd_substr(&run->context, to, text, (s64)c, (s64)d));
}

HELPER(path_part)
{
	struct ilk_run *run = run_of(frame);
	char *to = text_at(run, b, d);
	const char *text = text_at(run, c, d);

	if (!to || !text)
		return 0;
	switch (a) {
	case 0:
		return made(run, gd_basename(&run->context, to, text));
	case 1:
		return made(run, gd_dirname(&run->context, to, text));
	}
	return made(run, gd_cleanpath(&run->context, to, text));
}

HELPER(change_case)
{
	struct ilk_run *run = run_of(frame);
	char *to = text_at(run, b, d);
	const char *text = text_at(run, c, d);

	return to && text && made(run, gd_change_case(&run->context, to, text, a ? 'a' : 'A'));
}

HELPER(lltostr)
{
	struct ilk_run *run = run_of(frame);
	char *to = text_at(run, a, d);

	return to && made(run, gd_lltostr(&run->context, to, (s64)b, (s64)c));
}

HELPER(strtoll)
{
	struct ilk_run *run = run_of(frame);
	const char *text = text_at(run, b, d);
	u64 *to = at(run, a, sizeof(u64));

	if (!text || !to || a % sizeof(u64))
		return 0;
	*to = (u64)gd_strtoll(&run->context, text, (s64)c);
	return !run->context.fault;
}

/* strchr() and strrchr(): the rest of a string from a character on. Returns 0 if the character does not occur. */
HELPER(find)
{
	struct ilk_run *run = run_of(frame);
	char *to = text_at(run, b, e);
	const char *text = text_at(run, c, e), *found;

	if (!to || !text)
		return 0;
	found = a ? gd_strrchr(&run->context, text, (int)d) : gd_strchr(&run->context, text, (int)d);
	if (!found)
		return 0;
	/* the string may be cut off */
	gd_append(&run->context, to, 0, found, e - (u64)(found - text));
	gd_strpad(to, e);
	return 1;
}

/*
 * The search takes time in proportion to the sum of both lengths (Knuth, Morris, Pratt). Its table lies behind `part`
 * in the frame: for each prefix of `part`, the length of the longest shorter prefix that is also a suffix of it.
 */
static void learn(const char *part, u64 length, unsigned short *shorter)
{
	u64 i, have = 0;

	shorter[0] = 0;
	for (i = 1; i < length; i++) {
		while (have && part[i] != part[have])
			have = shorter[have - 1];
		have += part[i] == part[have];
		shorter[i] = (unsigned short)have;
		GD_LOOP();
	}
}

/* The first or last place of `part` in the characters from `from` to `end`; -1: there is none. */
static s64 place_of(const char *text, s64 from, s64 end, const char *part, s64 length, const unsigned short *shorter,
		    bool last)
{
	s64 have = 0, found = -1;

	for (; from < end && (last || found < 0); from++) {
		while (have && (have == length || text[from] != part[have]))
			have = shorter[have - 1];
		have += text[from] == part[have];
		if (have == length)
			found = from + 1 - length;
		GD_LOOP();
	}
	return found;
}

/* index() or rindex(), with the results of gd_index() and gd_rindex(). */
static s64 index_of(struct ilk_run *run, const char *text, const char *part, s64 start, bool last)
{
	u64 strsize = run->clauses->layout.strsize;
	unsigned short *shorter = (unsigned short *)(part + strsize + strsize % 2);
	s64 all = (s64)gd_strlen(&run->context, text), length = (s64)gd_strlen(&run->context, part);

	if (!length)
		return start < 0 ? 0 : start < all ? start : all;
	if (length > all || (last && start < 0))
		return -1;
	learn(part, (u64)length, shorter);
	if (last)
		return place_of(text, 0, start < all - length ? start + length : all, part, length, shorter, true);
	return place_of(text, start < 0 ? 0 : start, all, part, length, shorter, false);
}

/* A string at an even offset, with room behind it for two bytes for each of its own. */
static const char *part_at(struct ilk_run *run, u64 place, u64 size)
{
	const char *part = text_at(run, place, size);

	return part && place % 2 == 0 && at(run, place, 3 * size + size % 2) ? part : 0;
}

HELPER(index)
{
	struct ilk_run *run = run_of(frame);
	const char *text = text_at(run, b, e), *part = part_at(run, c, e);

	return text && part ? (u64)index_of(run, text, part, (s64)d, a) : 0;
}

HELPER(strstr)
{
	struct ilk_run *run = run_of(frame);
	char *to = text_at(run, a, d);
	const char *text = text_at(run, b, d), *part = part_at(run, c, d);
	s64 found = to && text && part ? index_of(run, text, part, 0, false) : -1;

	if (found < 0)
		return 0;
	gd_append(&run->context, to, 0, text + found, d - (u64)found);
	gd_strpad(to, d);
	return 1;
}

struct characters {
	u64 word[4];
};

static bool is_among(const struct characters *set, char c)
{
	return set->word[(u8)c >> 6] >> ((u8)c & 63) & 1;
}

/* The length of the longest prefix whose characters are all in the set, or all not in it. */
static u64 span(const char *text, u64 all, const struct characters *set, bool in)
{
	u64 n = 0;

	while (n < all && is_among(set, text[n]) == in) {
		n++;
		GD_LOOP();
	}
	return n;
}

/* strtok(): `keep` holds the rest of the text, from the separator on, for the next call. Returns 0 if no token is left. */
HELPER(strtok)
{
	struct ilk_run *run = run_of(frame);
	char *to = text_at(run, a, e), *keep = text_at(run, d, e);
	const char *text = text_at(run, b, e), *between = text_at(run, c, e);
	struct characters set = { { 0 } };
	u64 all, start, length, i;

	if (!to || !keep || !text || !between)
		return 0;
	all = gd_strlen(&run->context, text);
	for (i = 0; i < e && between[i]; i++)
		set.word[(u8)between[i] >> 6] |= 1ull << ((u8)between[i] & 63);
	start = span(text, all, &set, true);
	length = span(text + start, all - start, &set, false);
	if (length)
		made(run, (gd_append(&run->context, to, 0, text + start, length), to));
	if (length && start + length < all)
		gd_append(&run->context, keep, 0, text + start + length, e - (start + length));
	else
		keep[0] = 0;
	return length != 0;
}

HELPER(character)
{
	struct ilk_run *run = run_of(frame);
	const char *text = text_at(run, b, d);
	u64 *to = at(run, a, sizeof(u64));

	if (!text || !to || a % sizeof(u64))
		return 0;
	*to = (u64)gd_character(&run->context, text, c);
	return !run->context.fault;
}

HELPER(after)
{
	struct ilk_run *run = run_of(frame);
	char *to = text_at(run, a, d);
	const char *text = text_at(run, b, d), *rest;

	if (!to || !text)
		return 0;
	rest = gd_after(&run->context, text, (s64)c);
	if (!rest)
		return 0;
	gd_append(&run->context, to, 0, rest, d - (u64)(rest - text));
	return made(run, to);
}

/* inet_ntop() and link_ntop(): the address is read from memory. */
HELPER(address_text)
{
	struct ilk_run *run = run_of(frame);
	struct gd_context *ctx = &run->context;
	char *to = text_at(run, b, e);
	u8 bytes[16];

	if (!to)
		return 0;
	switch (a) {
	case 0:
		return gd_load(ctx, bytes, c, 4) && made(run, gd_inet_ntoa(ctx, to, bytes));
	case 1:
		return gd_load(ctx, bytes, c, 16) &&
		       made(run, d ? gd_inet_ntoa6(ctx, to, bytes) : gd_inet_ntoa6_short(ctx, to, bytes));
	case 2:
		return gd_inet_ntop(ctx, to, (s64)d, c) && made(run, to);
	}
	return gd_link_ntop(ctx, to, (s64)d, c) && made(run, to);
}

HELPER(swap)
{
	return b == 2 ? __builtin_bswap16((unsigned short)a) : b == 4 ? __builtin_bswap32((u32)a) : __builtin_bswap64(a);
}

#endif
