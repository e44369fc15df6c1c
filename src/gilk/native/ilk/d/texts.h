/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers about strings: D's subroutines, over strings that lie in the frame.
 *
 * Each string has strsize bytes there, so that whatever lies in it the runtime, which goes to its end or so far, stays
 * in the frame. What they make has zeroes behind its end.
 */
#ifndef ILK_D_TEXTS_H
#define ILK_D_TEXTS_H

#include "places.h"

/* Null: the clause has a fault. */
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

/* The rest of a string from a character on, the first or the last of its kind. 0: there is none. */
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
	/* it is the end of a string, which may be cut off */
	gd_append(&run->context, to, 0, found, e - (u64)(found - text));
	gd_strpad(to, e);
	return 1;
}

HELPER(swap)
{
	return b == 2 ? __builtin_bswap16((unsigned short)a) : b == 4 ? __builtin_bswap32((u32)a) : __builtin_bswap64(a);
}

#endif
