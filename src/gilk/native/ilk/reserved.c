// SPDX-License-Identifier: GPL-2.0
/*
 * Places in core text that the kernel itself rewrites: static keys and static calls. The kernel's functions walk the
 * whole table for each lookup, and a plan takes a hundred thousand lookups. The core tables do not change, so they are
 * sorted once, when the driver is loaded. The tables of modules come and go, and are searched by the kernel's
 * functions.
 */
#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/sort.h>
#include <linux/static_call_types.h>

#include "ilk.h"

struct place {
	u32 offset; /* from _stext */
	u16 size;
	u16 status;
};

static struct place *places;
static u32 nr_places;

static void add(unsigned long address, u32 size, u32 status)
{
	places[nr_places++] =
		(struct place){ address - (unsigned long)ilk_kernel._stext, size, status };
}

static int ascending(const void *left, const void *right)
{
	const struct place *a = left, *b = right;

	return a->offset < b->offset ? -1 : a->offset > b->offset;
}

int ilk_reserved_init(void)
{
	struct jump_entry *key = ilk_kernel.__start___jump_table;
	struct jump_entry *keys_end = ilk_kernel.__stop___jump_table;
	struct static_call_site *call = ilk_kernel.__start_static_call_sites;
	struct static_call_site *calls_end = ilk_kernel.__stop_static_call_sites;

	places = kvmalloc_array((keys_end - key) + (calls_end - call) + 1, sizeof(*places),
				GFP_KERNEL);
	if (!places)
		return -ENOMEM;
	for (; key < keys_end; key++)
		if (ilk_in_core(jump_entry_code(
			    key))) /* a call in init code, which is freed, so its size cannot be read */
			add(jump_entry_code(key), ilk_kernel.arch_jump_entry_size(key),
			    ILK_STATIC_KEY);
	for (; call < calls_end; call++)
		if (ilk_in_core((long)call->addr + (long)&call->addr))
			add((long)call->addr + (long)&call->addr, 5, ILK_STATIC_CALL);
	sort(places, nr_places, sizeof(*places), ascending, NULL);
	return 0;
}

void ilk_reserved_exit(void)
{
	kvfree(places);
}

/* ILK_OK if no such place overlaps the core text from `first` to `last`, else the status that tells which kind does. */
u32 ilk_reserved_core(unsigned long first, unsigned long last)
{
	u32 from = first - (unsigned long)ilk_kernel._stext,
	    to = last - (unsigned long)ilk_kernel._stext;
	u32 low = 0, high = nr_places;

	while (low < high) {
		u32 middle = (low + high) / 2;

		if (places[middle].offset + places[middle].size <= from)
			low = middle + 1;
		else
			high = middle;
	}
	return low < nr_places && places[low].offset <= to ? places[low].status : ILK_OK;
}
