// SPDX-License-Identifier: GPL-2.0
/*
 * Per-CPU counters. Near counters lie in the part of the first per-CPU chunk that the kernel reserves for modules: only
 * there does an offset from GS fit into a signed 32-bit number. That part is small and shared with other modules, so
 * all near counters come from one pool, which is made as large as possible when the driver is loaded.
 */
#include <linux/bitmap.h>
#include <linux/slab.h>
#include <linux/percpu.h>

#include "ilk.h"

#define NEAR_MOST 832u /* modules have 8 KiB, of which the driver's own variables take more than 1 */
#define FAR_BLOCK 4096u /* 32 KiB: the largest per-CPU allocation */

static u64 __percpu *near;
static u32 near_count;
static DECLARE_BITMAP(near_used, NEAR_MOST);

struct block {
	struct list_head list;
	u64 __percpu *counters;
	u32 first;
	u32 count;
	u32 near_at; /* index in the pool, NEAR_MOST for a far block */
};

static bool is_near(u64 __percpu *counters, u32 count)
{
	s64 last = (s64)(unsigned long)(counters + count);

	return last == (s32)last && last > 0;
}

int ilk_counters_init(void)
{
	for (near_count = NEAR_MOST; near_count; near_count -= 64) {
		near = ilk_kernel.__alloc_reserved_percpu(near_count * sizeof(u64), sizeof(u64));
		if (near)
			break;
	}
	if (near && !is_near(near, near_count)) {
		free_percpu(near);
		near = NULL;
		near_count = 0;
	}
	return 0;
}

void ilk_counters_exit(void)
{
	free_percpu(near);
}

u32 ilk_counters_free_near(void)
{
	return near_count - bitmap_weight(near_used, near_count);
}

static void zero(u64 __percpu *counters, u32 count)
{
	int cpu;

	for_each_possible_cpu(cpu)
		memset(per_cpu_ptr(counters, cpu), 0, count * sizeof(u64));
}

static bool take_near(struct block *block, u32 most)
{
	u32 at = find_first_zero_bit(near_used, near_count);
	u32 end;

	if (at >= near_count)
		return false;
	end = find_next_bit(near_used, near_count, at);
	block->count = min(end - at, most);
	block->counters = near + at;
	block->near_at = at;
	bitmap_set(near_used, at, block->count);
	zero(block->counters, block->count);
	return true;
}

static bool take_far(struct block *block, u32 most)
{
	block->count = min(FAR_BLOCK, most);
	block->counters = __alloc_percpu(FAR_BLOCK * sizeof(u64), sizeof(u64));
	block->near_at = NEAR_MOST;
	return block->counters;
}

static void give_back(struct block *block)
{
	if (block->near_at < NEAR_MOST)
		bitmap_clear(near_used, block->near_at, block->count);
	else
		free_percpu(block->counters);
	list_del(&block->list);
	kfree(block);
}

static void give_back_from(struct ilk_client *client, u32 first)
{
	struct block *block, *next;

	list_for_each_entry_safe(block, next, &client->blocks, list)
		if (block->first >= first)
			give_back(block);
	client->nr_counters = first;
}

static struct block *take(struct ilk_client *client, u32 most)
{
	struct block *block = kzalloc(sizeof(*block), GFP_KERNEL);

	if (!block)
		return NULL;
	if (!take_near(block, most) && !take_far(block, most)) {
		kfree(block);
		return NULL;
	}
	block->first = client->nr_counters;
	client->nr_counters += block->count;
	list_add_tail(&block->list, &client->blocks);
	return block;
}

/* Allocate all `count` counters in at most `room` blocks, or none. */
int ilk_counters_create(struct ilk_client *client, u32 count, struct ilk_block *blocks, u32 room,
			u32 *made)
{
	u32 before = client->nr_counters;

	if (!count)
		return -EINVAL;
	if (count > ILK_COUNTERS_MAX - before)
		return -E2BIG;
	for (*made = 0; count; ++*made) {
		struct block *block = *made < room ? take(client, count) : NULL;

		if (!block) {
			give_back_from(client, before);
			return *made < room ? -ENOMEM : -ENOSPC;
		}
		blocks[*made] = (struct ilk_block){
			.gs = (s64)(unsigned long)block->counters,
			.first = block->first,
			.count = block->count,
			.flags = is_near(block->counters, block->count) ? ILK_BLOCK_NEAR : 0,
		};
		count -= block->count;
	}
	return 0;
}

static u64 value_of(u64 __percpu *counter, u32 cpu)
{
	u64 sum = 0;
	int each;

	if (cpu != ILK_ALL_CPUS)
		return READ_ONCE(*per_cpu_ptr(counter, cpu));
	for_each_possible_cpu(each)
		sum += READ_ONCE(*per_cpu_ptr(counter, each));
	return sum;
}

int ilk_counters_read(struct ilk_client *client, u32 first, u32 count, u32 cpu, u64 *values)
{
	u32 end = first + count, i;
	struct block *block;

	if (end < first || end > client->nr_counters)
		return -EINVAL;
	if (cpu != ILK_ALL_CPUS && (cpu >= nr_cpu_ids || !cpu_possible(cpu)))
		return -EINVAL;
	list_for_each_entry(block, &client->blocks, list) {
		u32 from = max(first, block->first), to = min(end, block->first + block->count);

		for (i = from; i < to; i++)
			values[i - first] = value_of(block->counters + (i - block->first), cpu);
		cond_resched();
	}
	return 0;
}

void ilk_counters_free(struct ilk_client *client)
{
	give_back_from(client, 0);
}
