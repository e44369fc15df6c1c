/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Looks up addresses in the table of places (abi/gilk_abi.h), which the client may rewrite at any time. */
#include "places.h"

/* The last row at or below `address`; zeros if there is none. */
static struct gilk_row floor_row(const struct gilk_row *row, gilk_u64 count, gilk_u64 address)
{
	gilk_u64 low = 0, high = count;

	while (low < high) {
		gilk_u64 middle = (low + high) / 2;

		if (row[middle].from <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? row[low - 1] : (struct gilk_row){0, 0};
}

static gilk_u64 version_of(const struct gilk_places *places)
{
	gilk_u64 version;

	in_order();
	version = *(const volatile gilk_u64 *)&places->version;
	in_order();
	return version;
}

/*
 * Look up `address` in the rows of patches, or in those of displaced instructions. Returns whether the table was whole
 * all the while. The numbers of rows are checked before they are used: those of two tables, mixed, might lead beyond
 * both.
 */
static int look_up(const struct gilk_places *places, int displaced, gilk_u64 address, struct gilk_row *found)
{
	const struct gilk_row *rows = (const struct gilk_row *)(places + 1);
	gilk_u64 version = version_of(places), first = displaced ? places->patches : 0;
	gilk_u64 count = displaced ? places->displaced : places->patches;

	if (!version || version_of(places) != version)
		return 0;
	*found = floor_row(rows + first, count, address);
	return version_of(places) == version;
}

static struct gilk_row row_of(int displaced, gilk_u64 address)
{
	struct gilk_row found;

	while (!look_up(*(const struct gilk_places *const volatile *)&gilk_params.places, displaced, address, &found))
		;
	return found;
}

struct gilk_row gilk_row_of_patch(gilk_u64 address)
{
	return row_of(0, address);
}

struct gilk_row gilk_row_of_displaced(gilk_u64 address)
{
	return row_of(1, address);
}
