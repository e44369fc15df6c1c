/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Aggregating functions: how a value changes the cells of an entry.
 *
 * Each change of a cell is one instruction (host_add_own()), so no update is lost when a handler or another thread
 * comes in between. A reader may see some cells of an update before others.
 *
 * Ownership: all threads share the cells; the last writer of `touched` wins.
 */
#ifndef GILK_D_AGGREGATE_H
#define GILK_D_AGGREGATE_H

#include "../../abi/gilk_bucket.h"
#include "table.h"

static inline gd_u32 gd_generation(struct gd_context *ctx, gd_u32 number)
{
	return gd_get32((gd_u32 *)(ctx->memory + ctx->layout->generations) + number);
}

/* The cells of an entry, which this marks as used since the last trunc(); null: dropped. */
static inline gd_u64 *gd_aggregating(struct gd_context *ctx, gd_u32 number, const void *key, gd_u32 key_size,
				     gd_u32 cells)
{
	struct gd_entry *entry = gd_entry_for(ctx, number, key, key_size, cells);
	gd_u32 generation;

	if (gd_unlikely(!entry))
		return 0;
	generation = gd_generation(ctx, number) + 1;
	if (gd_unlikely(entry->touched != generation))
		__atomic_store_n(&entry->touched, generation, __ATOMIC_RELAXED);
	return gd_cells(entry, key_size);
}

static inline void gd_count(struct gd_context *ctx, gd_u32 number, const void *key, gd_u32 key_size)
{
	gd_u64 *cells = gd_aggregating(ctx, number, key, key_size, 1);

	if (cells)
		host_add_own(cells, 1);
}

static inline void gd_sum(struct gd_context *ctx, gd_u32 number, const void *key, gd_u32 key_size, gd_s64 value)
{
	gd_u64 *cells = gd_aggregating(ctx, number, key, key_size, 1);

	if (cells)
		host_add_own(cells, (gd_u64)value);
}

static inline void gd_raise(gd_u64 *cell, gd_u64 value)
{
	gd_u64 seen = gd_get(cell);

	while (seen < value && !host_swap_own(cell, seen, value))
		seen = gd_get(cell);
}

/* Repeat the update if the generation has changed: the updated cell may belong to the generation that has ended. */
static inline void gd_extreme(struct gd_context *ctx, gd_u32 number, const void *key, gd_u32 key_size, gd_u64 value)
{
	gd_u32 before, tries;
	gd_u64 *cells;

	for (tries = 0; tries < HOST_TRIES; tries++) {
		before = gd_generation(ctx, number);
		cells = gd_aggregating(ctx, number, key, key_size, 2);
		if (!cells)
			return;
		gd_raise(&cells[before & 1], value);
		if (gd_likely(gd_generation(ctx, number) == before))
			return;
	}
}

static inline void gd_min(struct gd_context *ctx, gd_u32 number, const void *key, gd_u32 key_size, gd_s64 value)
{
	gd_extreme(ctx, number, key, key_size, (gd_u64)value ^ GD_MIN_FLIP);
}

static inline void gd_max(struct gd_context *ctx, gd_u32 number, const void *key, gd_u32 key_size, gd_s64 value)
{
	gd_extreme(ctx, number, key, key_size, (gd_u64)value ^ GD_MAX_FLIP);
}

static inline void gd_avg(struct gd_context *ctx, gd_u32 number, const void *key, gd_u32 key_size, gd_s64 value)
{
	gd_u64 *cells = gd_aggregating(ctx, number, key, key_size, 2);

	if (!cells)
		return;
	host_add_own(&cells[0], 1);
	host_add_own(&cells[1], (gd_u64)value);
}

static inline void gd_stddev(struct gd_context *ctx, gd_u32 number, const void *key, gd_u32 key_size, gd_s64 value)
{
	gd_u64 *cells = gd_aggregating(ctx, number, key, key_size, 4);
	unsigned __int128 square = (unsigned __int128)((__int128)value * value);
	gd_u64 low = (gd_u64)square, high = (gd_u64)(square >> 64), before;

	if (!cells)
		return;
	host_add_own(&cells[0], 1);
	host_add_own(&cells[1], (gd_u64)value);
	before = __atomic_fetch_add(&cells[2], low, __ATOMIC_RELAXED);
	high += before + low < low;
	if (high)
		host_add_own(&cells[3], high);
}

static inline gd_u64 gd_magnitude(gd_s64 value)
{
	return value < 0 ? -(gd_u64)value : (gd_u64)value;
}

static inline void gd_quantize(struct gd_context *ctx, gd_u32 number, const void *key, gd_u32 key_size, gd_s64 value,
			       gd_s64 weight)
{
	gd_u64 *cells = gd_aggregating(ctx, number, key, key_size, GD_QUANTIZE_CELLS);

	if (cells)
		host_add_own(&cells[gilk_quantize_bucket(value)], (gd_u64)weight);
}

/* low < high, step > 0. The last cell counts the values above the last whole step. */
static inline void gd_lquantize(struct gd_context *ctx, gd_u32 number, const void *key, gd_u32 key_size, gd_s64 value,
				gd_s64 low, gd_s64 high, gd_s64 step, gd_s64 weight)
{
	gd_u64 levels = ((gd_u64)high - (gd_u64)low) / (gd_u64)step, level;
	gd_u64 *cells = gd_aggregating(ctx, number, key, key_size, (gd_u32)levels + 2);

	if (!cells)
		return;
	level = ((gd_u64)value - (gd_u64)low) / (gd_u64)step;
	level = level < levels ? level : levels;
	host_add_own(&cells[value < low ? 0 : level + 1], (gd_u64)weight);
}

/* How many of the ascending edges are at or below the value. */
static inline gd_u32 gd_edges_below(const gd_u64 *edges, gd_u32 count, gd_u64 value)
{
	gd_u32 low = 0, high = count;

	while (low < high) {
		gd_u32 middle = (low + high) / 2;

		if (edges[middle] <= value)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static inline void gd_llquantize(struct gd_context *ctx, gd_u32 number, const void *key, gd_u32 key_size, gd_s64 value,
				 const gd_u64 *edges, gd_u32 edge_count, gd_s64 weight)
{
	gd_u64 *cells = gd_aggregating(ctx, number, key, key_size, 2 * edge_count + 1);
	gd_u32 away = gd_edges_below(edges, edge_count, gd_magnitude(value));

	if (cells)
		host_add_own(&cells[value < 0 ? edge_count - away : edge_count + away], (gd_u64)weight);
}

#endif
