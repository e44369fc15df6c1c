/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Unwind tables: find the rule for an address. The format is in gilk_unwind.h.
 *
 * Ownership: nothing is held. The tables are the client's, and every number in them is checked here. They lie in the D
 * program's memory or, where several processes share that, in memory of the one process (D_UNWIND bytes from it).
 */
#ifndef GILK_D_UNWIND_H
#define GILK_D_UNWIND_H

#include "../../abi/gilk_unwind.h"
#include "base.h"

struct gd_tables {
	gd_u8 *at;
	gd_u64 size; /* 0: there are no tables */
	const struct gu_map *map;
	gd_u64 count; /* how many modules there are */
	struct gu_module here; /* a copy of the module found last: the next address is likely to lie in it, too */
};

static inline const void *gd_part(const struct gd_tables *t, gd_u64 offset, gd_u64 count, gd_u64 each)
{
	if (offset > t->size || count > (t->size - offset) / each)
		return 0;
	return t->at + offset;
}

static inline struct gu_head *gd_unwind_head(struct gd_context *ctx)
{
#ifdef D_UNWIND
	return (struct gu_head *)(ctx->memory + D_UNWIND);
#else
	return (struct gu_head *)(ctx->memory + ctx->layout->unwind);
#endif
}

static inline void gd_open_tables(struct gd_context *ctx, struct gd_tables *t)
{
	gd_u64 offset;

	t->at = (gd_u8 *)gd_unwind_head(ctx);
#ifdef D_UNWIND
	t->size = D_UNWIND_SIZE;
#else
	t->size = ctx->layout->unwind_size;
#endif
	t->map = 0;
	t->count = 0;
	t->here.start = t->here.end = 0;
	if (t->size < sizeof(struct gu_head))
		return;
	offset = gd_get(&gd_unwind_head(ctx)->map);
	t->map = offset ? gd_part(t, offset, 1, sizeof *t->map) : 0;
	if (!t->map)
		return;
	t->count = t->map->count;
	if (!gd_part(t, offset + sizeof *t->map, t->count, sizeof *t->map->module))
		t->count = 0;
}

/* Whether a known module has the address; t->here is that module then. */
static inline bool gd_find_module(struct gd_tables *t, gd_u64 pc)
{
	gd_u64 low = 0, high = t->count;

	if (pc - t->here.start < t->here.end - t->here.start)
		return true;
	while (low < high) {
		gd_u64 middle = (low + high) / 2;
		const struct gu_module *m = &t->map->module[middle];

		if (pc < m->start) {
			high = middle;
		} else if (pc >= m->end) {
			low = middle + 1;
		} else {
			t->here = *m;
			return true;
		}
	}
	return false;
}

/* How many of the rows from `low` to `high` begin at or below an address. */
static inline gd_u32 gd_rows_below(const gd_u32 *from, gd_u32 low, gd_u32 high, gd_u32 address)
{
	while (low < high) {
		gd_u32 middle = low + (high - low) / 2;

		if (from[middle] <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The number of the row of an address in t->here, plus one; 0: none. */
static inline gd_u32 gd_row(const struct gd_tables *t, gd_u64 address)
{
	const gd_u32 *pages = gd_part(t, t->here.pages, t->here.page_count + 1UL, sizeof *pages);
	const gd_u32 *from = gd_part(t, t->here.from, t->here.rows, sizeof *from);
	gd_u64 page = address >> GU_PAGE;
	gd_u32 low, high;

	if (!pages || !from || page >= t->here.page_count)
		return 0;
	low = gd_get32(&pages[page]);
	high = gd_get32(&pages[page + 1]);
	return low > high || high > t->here.rows ? 0 : gd_rows_below(from, low, high, (gd_u32)address);
}

static inline const struct gu_rule *gd_rule_of(const struct gd_tables *t, gd_u64 number)
{
	gd_u64 all = ((const struct gu_head *)t->at)->rules;

	return all > t->size ? 0 : gd_part(t, all + number * sizeof(struct gu_rule), 1, sizeof(struct gu_rule));
}

/* The cache slot of an address; null: there is no cache, or it is out of bounds. */
static inline gd_u64 *gd_cached(const struct gd_tables *t, gd_u64 pc)
{
	gd_u64 all = ((const struct gu_head *)t->at)->cache;

	if (all & 7 || !gd_part(t, all, GU_CACHE, sizeof(gd_u64)))
		return 0;
	return (gd_u64 *)(t->at + all) + (pc * 0x9e3779b97f4a7c15UL >> (64 - GU_CACHE_BITS));
}

/* Look up the rule in the tables; null: no module has the address (this is recorded), or no row. */
static inline const struct gu_rule *gd_seek_rule(struct gd_tables *t, gd_u64 pc, gd_u64 *cached)
{
	const gd_u16 *rule;
	gd_u32 row;

	if (!gd_find_module(t, pc)) {
		((struct gu_head *)t->at)->missed = 1;
		return 0;
	}
	row = gd_row(t, pc - t->here.base);
	rule = gd_part(t, t->here.rule, t->here.rows, sizeof *rule);
	if (!row || !rule)
		return 0;
	if (cached)
		__atomic_store_n(cached, pc << 16 | rule[row - 1], __ATOMIC_RELAXED);
	return gd_rule_of(t, rule[row - 1]);
}

/* The rule for an address; null: there is none. */
static inline const struct gu_rule *gd_rule(struct gd_tables *t, gd_u64 pc)
{
	gd_u64 *cached = gd_cached(t, pc), word = cached ? __atomic_load_n(cached, __ATOMIC_RELAXED) : 0;

	if (gd_likely(word >> 16 == pc && word))
		return gd_rule_of(t, word & 0xffff);
	return gd_seek_rule(t, pc, cached);
}

#endif
