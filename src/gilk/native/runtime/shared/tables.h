/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Unwind tables: find the rule for an address. The format is in abi/gilk_unwind.h.
 *
 * Ownership: nothing is held. The tables are the client's, and every number in them is checked here.
 */
#ifndef GILK_TABLES_H
#define GILK_TABLES_H

#include "../../abi/gilk_unwind.h"

struct gw_tables {
	gilk_u8 *at;
	gilk_u64 size; /* 0: there are no tables */
	const struct gu_map *map;
	gilk_u64 count; /* how many modules there are */
	struct gu_module here; /* a copy of the module found last: the next address is likely to lie in it, too */
};

static inline const void *gw_part(const struct gw_tables *t, gilk_u64 offset, gilk_u64 count, gilk_u64 each)
{
	if (offset > t->size || count > (t->size - offset) / each)
		return 0;
	return t->at + offset;
}

static inline void gw_open_tables(struct gw_tables *t, void *at, gilk_u64 size)
{
	gilk_u64 offset;

	t->at = at;
	t->size = size;
	t->map = 0;
	t->count = 0;
	t->here.start = t->here.end = 0;
	if (t->size < sizeof(struct gu_head))
		return;
	offset = __atomic_load_n(&((struct gu_head *)t->at)->map, __ATOMIC_ACQUIRE);
	t->map = offset ? gw_part(t, offset, 1, sizeof *t->map) : 0;
	if (!t->map)
		return;
	t->count = t->map->count;
	if (!gw_part(t, offset + sizeof *t->map, t->count, sizeof *t->map->module))
		t->count = 0;
}

/* Have the client look for code that has been mapped since the tables were written. */
static inline void gw_ask_for_more(const struct gw_tables *t)
{
	((struct gu_head *)t->at)->missed = 1;
}

/* Copy by words: in advice, compilers would use vector registers, which then have to be saved. */
static inline void gw_keep_module(struct gw_tables *t, const struct gu_module *m)
{
	const gilk_u64 *from = (const gilk_u64 *)m;
	gilk_u64 *to = (gilk_u64 *)&t->here, n;

	for (n = 0; n < sizeof *m / sizeof *to; n++) {
		to[n] = from[n];
		__asm__ volatile("" : : : "memory");
	}
}

/* Whether a known module has the address; t->here is that module then. */
static inline int gw_find_module(struct gw_tables *t, gilk_u64 pc)
{
	gilk_u64 low = 0, high = t->count;

	if (pc - t->here.start < t->here.end - t->here.start)
		return 1;
	while (low < high) {
		gilk_u64 middle = (low + high) / 2;
		const struct gu_module *m = &t->map->module[middle];

		if (pc < m->start) {
			high = middle;
		} else if (pc >= m->end) {
			low = middle + 1;
		} else {
			gw_keep_module(t, m);
			return 1;
		}
	}
	return 0;
}

/* How many of the rows from `low` to `high` begin at or below an address. */
static inline gilk_u32 gw_rows_below(const gilk_u32 *from, gilk_u32 low, gilk_u32 high, gilk_u32 address)
{
	while (low < high) {
		gilk_u32 middle = low + (high - low) / 2;

		if (from[middle] <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The number of the row of an address in t->here, plus one; 0: none. */
static inline gilk_u32 gw_row(const struct gw_tables *t, gilk_u64 address)
{
	const gilk_u32 *pages = gw_part(t, t->here.pages, t->here.page_count + 1UL, sizeof *pages);
	const gilk_u32 *from = gw_part(t, t->here.from, t->here.rows, sizeof *from);
	gilk_u64 page = address >> GU_PAGE;
	gilk_u32 low, high;

	if (!pages || !from || page >= t->here.page_count)
		return 0;
	low = __atomic_load_n(&pages[page], __ATOMIC_ACQUIRE);
	high = __atomic_load_n(&pages[page + 1], __ATOMIC_ACQUIRE);
	return low > high || high > t->here.rows ? 0 : gw_rows_below(from, low, high, (gilk_u32)address);
}

static inline const struct gu_rule *gw_rule_of(const struct gw_tables *t, gilk_u64 number)
{
	gilk_u64 all = ((const struct gu_head *)t->at)->rules;

	return all > t->size ? 0 : gw_part(t, all + number * sizeof(struct gu_rule), 1, sizeof(struct gu_rule));
}

/* The cache slot of an address; null: there is no cache, or it is out of bounds. */
static inline gilk_u64 *gw_cached(const struct gw_tables *t, gilk_u64 pc)
{
	gilk_u64 all = ((const struct gu_head *)t->at)->cache;

	if (all & 7 || !gw_part(t, all, GU_CACHE, sizeof(gilk_u64)))
		return 0;
	return (gilk_u64 *)(t->at + all) + (pc * 0x9e3779b97f4a7c15UL >> (64 - GU_CACHE_BITS));
}

/* Look up the rule in the tables; null: no module has the address (this is recorded), or no row. */
static inline const struct gu_rule *gw_seek_rule(struct gw_tables *t, gilk_u64 pc, gilk_u64 *cached)
{
	const unsigned short *rule;
	gilk_u32 row;

	if (!gw_find_module(t, pc)) {
		gw_ask_for_more(t);
		return 0;
	}
	row = gw_row(t, pc - t->here.base);
	rule = gw_part(t, t->here.rule, t->here.rows, sizeof *rule);
	if (!row || !rule)
		return 0;
	if (cached)
		__atomic_store_n(cached, pc << 16 | rule[row - 1], __ATOMIC_RELAXED);
	return gw_rule_of(t, rule[row - 1]);
}

/* The rule for an address; null: there is none. */
static inline const struct gu_rule *gw_rule(struct gw_tables *t, gilk_u64 pc)
{
	gilk_u64 *cached = gw_cached(t, pc), word = cached ? __atomic_load_n(cached, __ATOMIC_RELAXED) : 0;

	if (__builtin_expect(word >> 16 == pc && word, 1))
		return gw_rule_of(t, word & 0xffff);
	return gw_seek_rule(t, pc, cached);
}

#endif
