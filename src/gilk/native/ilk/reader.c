// SPDX-License-Identifier: GPL-2.0
/* The other end of the rings: what read() of /dev/ilk gives. */
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include "ilk.h"

struct record {
	u64 tsc;
	u32 iid;
	u32 who;
};

/* Of the chunk held, the bytes from `taken` up to the first record that is not committed. */
static u32 committed(u64 chunk, u32 taken, u32 size, u32 most)
{
	u32 at = taken;

	while (at < ILK_CHUNK && at - taken + size <= most) {
		const struct record *record = (const void *)(unsigned long)(chunk + at);

		if (!smp_load_acquire(&record->iid))
			break;
		at += size;
	}
	return at - taken;
}

static void clear(u64 chunk, u32 taken, u32 bytes, u32 size)
{
	u32 at;

	for (at = taken; at < taken + bytes; at += size)
		((struct record *)(unsigned long)(chunk + at))->iid = 0;
}

/* To the next chunk, once this one is taken and the writer has left it. */
static bool advance(struct ilk_ring *ring, u32 *taken)
{
	u64 end = ring->reading + ILK_CHUNK;

	if (*taken < ILK_CHUNK || READ_ONCE(ring->wpos) == end)
		return false;
	*taken = 0;
	/* the iids are zero before the writer may enter the chunk that was held */
	smp_store_release(&ring->reading, end == ring->end ? ring->base : end);
	return true;
}

/* At most one chunk's worth; how many bytes went to `to`, 0 for none. */
static ssize_t read_ring(struct ilk_buffers *buffers, u32 cpu, u32 class_, char __user *to,
			 size_t room)
{
	struct ilk_ring *ring = per_cpu_ptr(&ilk_rings[class_ + ILK_CLASSES * buffers->set], cpu);
	u32 *taken = &buffers->taken[cpu * ILK_CLASSES + class_];
	struct ilk_chunk head = { .cpu = cpu, .class_ = class_ };
	u32 size = ilk_class_size(class_);

	if (room < sizeof(head) + size)
		return 0;
	if (*taken == ILK_CHUNK && !advance(ring, taken))
		return 0;
	head.bytes = committed(ring->reading, *taken, size,
			       min_t(size_t, room - sizeof(head), ILK_CHUNK));
	head.lost = READ_ONCE(ring->lost);
	if (!head.bytes)
		return 0;
	if (copy_to_user(to, &head, sizeof(head)) ||
	    copy_to_user(to + sizeof(head), (void *)(unsigned long)(ring->reading + *taken),
			 head.bytes))
		return -EFAULT;
	clear(ring->reading, *taken, head.bytes, size);
	*taken += head.bytes;
	return sizeof(head) + head.bytes;
}

static ssize_t read_round(struct ilk_buffers *buffers, char __user *to, size_t room)
{
	u32 rings = nr_cpu_ids * ILK_CLASSES, i;
	size_t done = 0;

	for (i = 0; i < rings; i++) {
		u32 which = (buffers->next + i) % rings;
		u32 cpu = which / ILK_CLASSES, class_ = which % ILK_CLASSES;
		ssize_t got;

		if (!cpu_possible(cpu) || !buffers->order[class_])
			continue;
		got = read_ring(buffers, cpu, class_, to + done, room - done);
		if (got < 0)
			return done ? done : got;
		done += got;
		cond_resched();
	}
	buffers->next = (buffers->next + 1) % rings; /* so that no ring always comes last */
	return done;
}

/* Until nothing is left or there is no room; read_mutex is held. */
ssize_t ilk_buffers_read(struct ilk_client *client, char __user *to, size_t room)
{
	struct ilk_buffers *buffers = smp_load_acquire(&client->buffers);
	size_t done = 0;

	if (room < ILK_READ_MIN)
		return -EINVAL;
	while (buffers && !signal_pending(current)) {
		ssize_t got = read_round(buffers, to + done, room - done);

		if (got < 0)
			return done ? done : got;
		if (!got)
			break;
		done += got;
	}
	return done;
}
