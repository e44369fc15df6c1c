// SPDX-License-Identifier: GPL-2.0
/* Memory for records. A client asks for it once, and keeps it until its file is closed. */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "ilk.h"

static struct ilk_client *owners[ILK_SETS];

static u32 chunks_of(const struct ilk_buffers *buffers, u32 class_)
{
	return buffers->order[class_] ? (1u << buffers->order[class_]) / ILK_CHUNK : 0;
}

static bool allocate_region(struct ilk_region *region, u64 bytes)
{
	region->bytes = bytes;
	region->memory = vmalloc_user(PAGE_ALIGN(bytes));
	return region->memory;
}

/* Chunks are aligned to their size, so the first one may begin behind the start of the allocation. */
static bool allocate_records(struct ilk_region *region, u64 bytes)
{
	region->bytes = bytes;
	region->memory = vmalloc_user(bytes + ILK_CHUNK);
	region->skipped = (ALIGN((unsigned long)region->memory, ILK_CHUNK) -
			   (unsigned long)region->memory) / PAGE_SIZE;
	return region->memory;
}

static u64 start_of(const struct ilk_region *region)
{
	return (u64)(unsigned long)region->memory + region->skipped * PAGE_SIZE;
}

/* Set the writer to the end of a chunk that does not exist, so that the first record enters a real one. */
static void start_ring(struct ilk_buffers *buffers, u32 cpu, u32 class_)
{
	struct ilk_ring *ring = ilk_ring_of(buffers, cpu, class_);
	u32 chunks = chunks_of(buffers, class_), number = cpu * ILK_CLASSES + class_;
	u64 *numbers = buffers->heads.memory + buffers->numbers[class_];

	*ring = (struct ilk_ring){
		.base = start_of(&buffers->records[class_]) + (u64)cpu * chunks * ILK_CHUNK,
		.chunks = chunks,
		.head = (struct ilk_ring_head *)buffers->heads.memory + number,
		.numbers = numbers + cpu * chunks,
		.tail = (u64 *)buffers->tails.memory + number,
		.buffers = buffers,
	};
	WRITE_ONCE(ring->wpos, ring->base + (u64)chunks * ILK_CHUNK);
}

static int create_class(struct ilk_buffers *buffers, u32 class_)
{
	u32 cpu;

	if (!buffers->order[class_])
		return 0;
	if (!allocate_records(&buffers->records[class_],
			      (1ull << buffers->order[class_]) * nr_cpu_ids))
		return -ENOMEM;
	for_each_possible_cpu(cpu)
		start_ring(buffers, cpu, class_);
	return 0;
}

/* Create the memory that all rings share. */
static int create_shared(struct ilk_buffers *buffers)
{
	u64 rings = (u64)nr_cpu_ids * ILK_CLASSES, bytes = rings * sizeof(struct ilk_ring_head);
	u32 class_;

	for (class_ = 0; class_ < ILK_CLASSES; class_++) {
		buffers->numbers[class_] = bytes;
		bytes += (u64)chunks_of(buffers, class_) * nr_cpu_ids * sizeof(u64);
	}
	buffers->reading = kvcalloc(rings, sizeof(*buffers->reading), GFP_KERNEL);
	if (!buffers->reading || !allocate_region(&buffers->tails, rings * sizeof(u64)) ||
	    !allocate_region(&buffers->heads, bytes))
		return -ENOMEM;
	return 0;
}

static int check_order(const struct ilk_records *message, u32 order)
{
	if (order > 30)
		return -E2BIG;
	if (order < ilog2(ILK_CHUNK) + 1 || message->watermark >= (1u << order) / ILK_CHUNK)
		return -EINVAL;
	return 0;
}

static int check(const struct ilk_records *message)
{
	int error = message->flags & ~ILK_FLIGHT ? -EINVAL : 0;
	u64 bytes = 0;
	u32 i;

	for (i = 0; i < ILK_CLASSES && !error; i++) {
		if (!message->order[i])
			continue;
		error = check_order(message, message->order[i]);
		if (!error)
			bytes += (1ull << message->order[i]) * nr_cpu_ids;
	}
	if (error)
		return error;
	if (!bytes)
		return -EINVAL;
	return bytes > ILK_RINGS_MAX ? -E2BIG : 0;
}

static int free_set(void)
{
	int set;

	for (set = 0; set < ILK_SETS; set++)
		if (!owners[set])
			return set;
	return -EBUSY;
}

/* Free all buffers. No code writes to them, reads or polls them any more. */
static void release(struct ilk_buffers *buffers)
{
	u32 class_, cpu;

	ilk_filter_free(&buffers->wanted, buffers->set);
	irq_work_sync(&buffers->wake);
	for (class_ = 0; class_ < ILK_CLASSES; class_++) {
		for_each_possible_cpu(cpu)
			memset(ilk_ring_of(buffers, cpu, class_), 0, sizeof(struct ilk_ring));
		vfree(buffers->records[class_].memory);
	}
	vfree(buffers->heads.memory);
	vfree(buffers->tails.memory);
	kvfree(buffers->reading);
	kfree(buffers);
}

static struct ilk_buffers *create(const struct ilk_records *message, u32 set)
{
	struct ilk_buffers *buffers = kzalloc(sizeof(*buffers), GFP_KERNEL);
	int error;
	u32 i;

	if (!buffers)
		return NULL;
	buffers->set = set;
	buffers->flags = message->flags;
	buffers->watermark = max(message->watermark, 1u);
	memcpy(buffers->order, message->order, sizeof(buffers->order));
	init_irq_work(&buffers->wake, ilk_buffers_wake);
	error = create_shared(buffers);
	for (i = 0; i < ILK_CLASSES && !error; i++)
		error = create_class(buffers, i);
	if (!error)
		return buffers;
	release(buffers);
	return NULL;
}

static void tell(const struct ilk_buffers *buffers, struct ilk_records *message)
{
	u32 i;

	message->set = buffers->set;
	message->chunk = ILK_CHUNK;
	for (i = 0; i < ILK_CLASSES; i++)
		message->wpos_gs[i] =
			(s64)(unsigned long)&ilk_rings[i + ILK_CLASSES * buffers->set].wpos;
	message->filter_gs = (s64)(unsigned long)&ilk_filters[buffers->set];
	ilk_buffers_areas(buffers, message);
}

int ilk_buffers_create(struct ilk_client *client, struct ilk_records *message)
{
	int set = free_set(), error = check(message);
	struct ilk_buffers *buffers;

	if (error)
		return error;
	if (client->buffers || set < 0)
		return -EBUSY;
	buffers = create(message, set);
	if (!buffers)
		return -ENOMEM;
	buffers->readers = &client->readers;
	owners[set] = client;
	ilk_onward_begin(set);
	tell(buffers, message);
	smp_store_release(&client->buffers, buffers);
	return 0;
}

/* Call this only when no unit of the client is left, and so no code writes records any more. */
void ilk_buffers_free(struct ilk_client *client)
{
	if (!client->buffers)
		return;
	owners[client->buffers->set] = NULL;
	release(client->buffers);
	client->buffers = NULL;
}

void ilk_buffers_lost(struct ilk_client *client, u64 *lost)
{
	struct ilk_buffers *buffers = client->buffers;
	u32 class_, cpu;

	memset(lost, 0, ILK_CLASSES * sizeof(*lost));
	for (class_ = 0; buffers && class_ < ILK_CLASSES; class_++) {
		if (!buffers->order[class_])
			continue;
		for_each_possible_cpu(cpu)
			lost[class_] += ilk_ring_of(buffers, cpu, class_)->head->lost +
					buffers->reading[cpu * ILK_CLASSES + class_].overwritten;
	}
}

u64 ilk_buffers_bytes(struct ilk_client *client)
{
	u64 bytes = 0;
	u32 i;

	for (i = 0; client->buffers && i < ILK_CLASSES; i++)
		bytes += client->buffers->records[i].bytes;
	return bytes;
}
