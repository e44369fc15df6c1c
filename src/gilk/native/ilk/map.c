// SPDX-License-Identifier: GPL-2.0
/*
 * Maps rings into the client's memory, and lets it poll for records (MAPPED in ilk_abi.h). A mapping holds a reference
 * to the file and to its pages, so neither is freed while it is in use.
 */
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/poll.h>
#include <linux/vmalloc.h>

#include "ilk.h"

/* The offsets of the areas, which are far apart. */
#define TAILS_AT 0ull
#define HEADS_AT (1ull << 32)
#define RECORDS_AT(class_) ((2ull + (class_)) << 32)

static void tell(const struct ilk_region *region, u64 offset, struct ilk_area *area)
{
	*area = (struct ilk_area){ .offset = offset, .bytes = region->bytes };
}

void ilk_buffers_areas(const struct ilk_buffers *buffers, struct ilk_records *message)
{
	u32 i;

	tell(&buffers->tails, TAILS_AT, &message->tails);
	tell(&buffers->heads, HEADS_AT, &message->heads);
	for (i = 0; i < ILK_CLASSES; i++) {
		tell(&buffers->records[i], RECORDS_AT(i), &message->records[i]);
		message->numbers[i] = buffers->numbers[i];
	}
}

static const struct ilk_region *region_at(const struct ilk_buffers *buffers, unsigned long page)
{
	u32 i;

	if (page == TAILS_AT >> PAGE_SHIFT)
		return &buffers->tails;
	if (page == HEADS_AT >> PAGE_SHIFT)
		return &buffers->heads;
	for (i = 0; i < ILK_CLASSES; i++)
		if (page == RECORDS_AT(i) >> PAGE_SHIFT && buffers->records[i].memory)
			return &buffers->records[i];
	return NULL;
}

/* Takes no lock of ours: the caller holds its mmap lock, which read() may take within read_mutex. */
int ilk_buffers_map(struct ilk_client *client, struct vm_area_struct *vma)
{
	const struct ilk_buffers *buffers = smp_load_acquire(&client->buffers);
	const struct ilk_region *region = buffers ? region_at(buffers, vma->vm_pgoff) : NULL;

	if (!buffers)
		return -ENXIO;
	if (!region || !(vma->vm_flags & VM_SHARED) ||
	    vma->vm_end - vma->vm_start > PAGE_ALIGN(region->bytes))
		return -EINVAL;
	if (vma->vm_flags & VM_EXEC)
		return -EPERM;
	if (region != &buffers->tails) {
		if (vma->vm_flags & VM_WRITE)
			return -EPERM;
		ILK_KEEP_READ_ONLY(vma);
	}
	ILK_KEEP_FROM_CHILDREN(vma);
	return remap_vmalloc_range(vma, region->memory, region->skipped);
}

/* Wake the readers, in an irq_work: the code that writes a record may hold any lock. */
void ilk_buffers_wake(struct irq_work *work)
{
	struct ilk_buffers *buffers = container_of(work, struct ilk_buffers, wake);

	WRITE_ONCE(buffers->waiting, false);
	wake_up_interruptible_poll(buffers->readers, EPOLLIN | EPOLLRDNORM);
}

static bool enough(const struct ilk_buffers *buffers)
{
	u32 cpu, class_;

	for_each_possible_cpu(cpu)
		for (class_ = 0; class_ < ILK_CLASSES; class_++) {
			const struct ilk_ring *ring = ilk_ring_of(buffers, cpu, class_);
			u64 entered;

			if (!buffers->order[class_])
				continue;
			entered = READ_ONCE(ring->head->entered);
			if (entered && entered - READ_ONCE(*ring->tail) / ILK_CHUNK >
					       buffers->watermark)
				return true;
		}
	return false;
}

__poll_t ilk_buffers_poll(struct ilk_client *client, struct file *file, poll_table *table)
{
	struct ilk_buffers *buffers = smp_load_acquire(&client->buffers);

	poll_wait(file, &client->readers, table);
	if (!buffers)
		return 0;
	WRITE_ONCE(buffers->waiting, true);
	smp_mb(); /* see wake() in rings.c */
	return enough(buffers) ? EPOLLIN | EPOLLRDNORM : 0;
}
