/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Checks the layout of a program's memory (gilk_d.h): all parts must lie in it, in order and each of them whole. Then
 * the runtime, which takes offsets from the layout, stays within the memory whatever its content is.
 *
 * Need: as check.h.
 */
#ifndef ILK_D_LAYOUT_H
#define ILK_D_LAYOUT_H

#include "../../abi/ilk_d_abi.h"

static inline bool ilk_d_is_power(u64 n)
{
	return n && !(n & (n - 1));
}

/*
 * Whether a part of `count` items of `stride` bytes at `at` lies behind *end and within `size`; *end becomes its end.
 */
static inline bool ilk_d_part(u64 at, u64 count, u64 stride, u64 size, u64 *end)
{
	if (at % 8 || at < *end || at > size || (stride && count > (size - at) / stride))
		return false;
	*end = at + count * stride;
	return true;
}

static inline bool ilk_d_buffers_fit(const struct gd_layout *l, u64 *end)
{
	u64 inside = sizeof(struct gd_buffer);

	return ilk_d_is_power(l->buffers) && ilk_d_is_power(l->buffer_size) && l->buffer_size >= GILK_PAGE &&
	       l->buffer_stride % 64 == 0 &&
	       ilk_d_part(l->buffer_marks, l->buffer_size / GD_GRANULE, 8, l->buffer_stride, &inside) &&
	       ilk_d_part(l->buffer_data, l->buffer_size, 1, l->buffer_stride, &inside) &&
	       ilk_d_part(l->buffer_first, l->buffers, l->buffer_stride, l->size, end);
}

static inline bool ilk_d_tables_fit(const struct gd_layout *l, u64 *end)
{
	u64 inside = sizeof(struct gd_table);

	return ilk_d_is_power(l->shards) && ilk_d_is_power(l->table_slots) && l->table_stride % 64 == 0 &&
	       l->heap_size % 8 == 0 && l->heap_size >= 2 * GD_GRANULE && l->heap_size >> 35 == 0 &&
	       ilk_d_part(l->table_direct, l->aggregations, 4, l->table_stride, &inside) &&
	       ilk_d_part(l->table_slot, l->table_slots, 8, l->table_stride, &inside) &&
	       ilk_d_part(l->table_heap, l->heap_size, 1, l->table_stride, &inside) &&
	       l->shards <= l->size / GD_BANKS && ilk_d_part(l->table_first, GD_BANKS * l->shards, l->table_stride, l->size, end);
}

static inline bool ilk_d_variables_fit(const struct gd_layout *l, u64 *end)
{
	u64 slots = l->dynamic_slots;

	return (!slots || (ilk_d_is_power(slots) && l->dynamic_stride % 8 == 0 &&
			   l->dynamic_stride >= sizeof(struct gd_variable))) &&
	       ilk_d_part(l->dynamic_words, slots, 8, l->size, end) &&
	       ilk_d_part(l->dynamic_reach, slots, 4, l->size, end) &&
	       ilk_d_part(l->dynamic_first, slots, l->dynamic_stride, l->size, end);
}

static inline bool ilk_d_speculations_fit(const struct gd_layout *l, u64 *end)
{
	return l->speculations <= ILK_D_SPECULATIONS_MAX && l->speculation_stride % 64 == 0 && l->speculation_size % GD_GRANULE == 0 && l->speculation_size <= 0xffffffull * GD_GRANULE &&
	       l->speculation_size <= l->size &&
	       (!l->speculations || l->speculation_stride >= sizeof(struct gd_speculation) + l->speculation_size) &&
	       ilk_d_part(l->speculation_first, l->speculations, l->speculation_stride, l->size, end);
}

static inline bool ilk_d_layout_fits(const struct gd_layout *l)
{
	u64 end = GILK_PAGE;

	return l->size <= ILK_D_MEMORY_MAX && l->size % GILK_PAGE == 0 && l->size >= GILK_PAGE &&
	       sizeof(struct gd_control) <= GILK_PAGE && l->policy <= GD_RING && l->strsize >= 8 &&
	       l->strsize <= ILK_D_FRAME_MAX &&
	       ilk_d_is_power(l->buffers) && ilk_d_part(l->drops, l->buffers, sizeof(struct gd_drops), l->size, &end) &&
	       ilk_d_part(l->generations, l->aggregations, 4, l->size, &end) &&
	       ilk_d_part(l->globals, l->globals_size, 1, l->size, &end) && ilk_d_buffers_fit(l, &end) &&
	       ilk_d_tables_fit(l, &end) && ilk_d_variables_fit(l, &end) && ilk_d_speculations_fit(l, &end) &&
	       !l->scratches && !l->unwind_size;
}

#endif
