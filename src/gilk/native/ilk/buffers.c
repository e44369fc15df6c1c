// SPDX-License-Identifier: GPL-2.0
/*
 * Rings for records: one a CPU and class, of chunks. The word that generated
 * code moves is the address of the next record (RINGS in ilk_abi.h). When it
 * stands at the end of a chunk, ilk_reserve_slow() takes it into the next one,
 * unless the reader holds that. The reader holds a chunk until it has taken all
 * of it and the writer has left it; so which chunk it holds is all that the two
 * need to know of each other, and there is no lock between them.
 */
#include <linux/irqflags.h>
#include <linux/log2.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "ilk.h"

DEFINE_PER_CPU(struct ilk_ring, ilk_rings[ILK_RINGS]);

static struct ilk_client *owners[ILK_SETS];

u32 ilk_class_size(u32 class_)
{
	static const u16 sizes[ILK_CLASSES] = { 16, 32, 64, 256 };

	return sizes[class_];
}

static u64 next_chunk(const struct ilk_ring *ring, u64 end)
{
	u64 next = end == ring->end ? ring->base : end;

	if (!end || READ_ONCE(ring->reading) == next)
		return 0;
	return next;
}

/*
 * A record in this CPU's ring `which` (class + ILK_CLASSES * set), or 0. In any
 * context: interrupts are off, and an NMI in between makes the cmpxchg fail.
 */
u64 ilk_reserve_slow(u32 which)
{
	struct ilk_ring *ring;
	unsigned long flags;
	u64 from, at;

	if (which >= ILK_RINGS)
		return 0;
	raw_local_irq_save(flags);
	ring = raw_cpu_ptr(&ilk_rings[which]);
	do {
		from = READ_ONCE(ring->wpos);
		at = from & (ILK_CHUNK - 1) ? from : next_chunk(ring, from);
		if (!at) {
			raw_cpu_inc(ilk_rings[which].lost);
			break;
		}
	} while (cmpxchg_local(&ring->wpos, from, at + ilk_class_size(which % ILK_CLASSES)) !=
		 from);
	raw_local_irq_restore(flags);
	return at;
}

static u64 aligned(const void *memory)
{
	return ALIGN((u64)(unsigned long)memory, ILK_CHUNK);
}

/* The reader holds the last chunk, and has taken all of it; the writer stands at its end. */
static void start_ring(struct ilk_ring *ring, u64 base, u64 bytes)
{
	ring->base = base;
	ring->end = base + bytes;
	ring->reading = ring->end - ILK_CHUNK;
	ring->lost = 0;
	WRITE_ONCE(ring->wpos, ring->end);
}

static int create_class(struct ilk_buffers *buffers, u32 class_)
{
	u64 bytes = 1ull << buffers->order[class_];
	u64 base;
	u32 cpu;

	buffers->memory[class_] = vzalloc(bytes * nr_cpu_ids + ILK_CHUNK);
	if (!buffers->memory[class_])
		return -ENOMEM;
	base = aligned(buffers->memory[class_]);
	for_each_possible_cpu(cpu) {
		u32 which = class_ + ILK_CLASSES * buffers->set;

		start_ring(per_cpu_ptr(&ilk_rings[which], cpu), base + cpu * bytes, bytes);
		buffers->taken[cpu * ILK_CLASSES + class_] = ILK_CHUNK;
	}
	return 0;
}

static int check(const struct ilk_records *message)
{
	u64 bytes = 0;
	u32 i;

	for (i = 0; i < ILK_CLASSES; i++) {
		u32 order = message->order[i];

		if (!order)
			continue;
		if (order > 30)
			return -E2BIG;
		if (order < ilog2(ILK_CHUNK) + 1)
			return -EINVAL;
		bytes += (1ull << order) * nr_cpu_ids;
	}
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

static struct ilk_buffers *allocate(const struct ilk_records *message, u32 set)
{
	struct ilk_buffers *buffers = kzalloc(sizeof(*buffers), GFP_KERNEL);

	if (!buffers)
		return NULL;
	buffers->set = set;
	memcpy(buffers->order, message->order, sizeof(buffers->order));
	buffers->taken = kcalloc(nr_cpu_ids * ILK_CLASSES, sizeof(u32), GFP_KERNEL);
	if (!buffers->taken) {
		kfree(buffers);
		return NULL;
	}
	return buffers;
}

static void release(struct ilk_buffers *buffers)
{
	u32 class_, cpu;

	ilk_filter_free(&buffers->wanted, buffers->set);
	for (class_ = 0; class_ < ILK_CLASSES; class_++) {
		for_each_possible_cpu(cpu)
			memset(per_cpu_ptr(&ilk_rings[class_ + ILK_CLASSES * buffers->set], cpu), 0,
			       sizeof(struct ilk_ring));
		vfree(buffers->memory[class_]);
	}
	kfree(buffers->taken);
	kfree(buffers);
}

int ilk_buffers_create(struct ilk_client *client, struct ilk_records *message)
{
	int set = free_set(), error = check(message);
	struct ilk_buffers *buffers;
	u32 i;

	if (error)
		return error;
	if (client->buffers || set < 0)
		return -EBUSY;
	buffers = allocate(message, set);
	if (!buffers)
		return -ENOMEM;
	for (i = 0; i < ILK_CLASSES && !error; i++)
		if (buffers->order[i])
			error = create_class(buffers, i);
	if (error) {
		release(buffers);
		return error;
	}
	owners[set] = client;
	message->set = set;
	message->chunk = ILK_CHUNK;
	for (i = 0; i < ILK_CLASSES; i++)
		message->wpos_gs[i] = (s64)(unsigned long)&ilk_rings[i + ILK_CLASSES * set].wpos;
	message->filter_gs = (s64)(unsigned long)&ilk_filters[set];
	smp_store_release(&client->buffers, buffers);
	return 0;
}

/* Only when no unit of the client is left: nothing writes any more. */
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
	u32 class_, cpu;

	memset(lost, 0, ILK_CLASSES * sizeof(*lost));
	if (!client->buffers)
		return;
	for (class_ = 0; class_ < ILK_CLASSES; class_++)
		for_each_possible_cpu(cpu)
			lost[class_] +=
				per_cpu(ilk_rings[class_ + ILK_CLASSES * client->buffers->set], cpu)
					.lost;
}

u64 ilk_buffers_bytes(struct ilk_client *client)
{
	u64 bytes = 0;
	u32 i;

	for (i = 0; client->buffers && i < ILK_CLASSES; i++)
		if (client->buffers->order[i])
			bytes += (1ull << client->buffers->order[i]) * nr_cpu_ids;
	return bytes;
}
