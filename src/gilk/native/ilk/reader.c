// SPDX-License-Identifier: GPL-2.0
/*
 * The reading end of the rings: read() of /dev/ilk. It trusts nothing that the client can write, and updates the tail,
 * which tells the client how far it has read.
 */
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include "ilk.h"

#define NOWHERE (~0u)
#define TRIES 16 /* attempts at a ring whose chunks are overwritten faster than they are read */

/* How many bytes of a chunk, from `taken` on, come before the first record that is not committed. */
static u32 committed(u64 chunk, u32 taken, u32 size, u32 most)
{
	u32 at = taken;

	while (at < ILK_CHUNK && at - taken + size <= most) {
		const struct gilk_record *record = (const void *)(unsigned long)(chunk + at);

		if (!smp_load_acquire(&record->iid))
			break;
		at += size;
	}
	return at - taken;
}

static u32 find(const struct ilk_ring *ring, u64 number, u32 hint)
{
	u32 i;

	for (i = 0; i < ring->chunks; i++) {
		u32 place = (hint + i) & (ring->chunks - 1);

		if (smp_load_acquire(&ring->numbers[place]) == number)
			return place;
	}
	return NOWHERE;
}

/* The number of the oldest chunk, from `number` on, that still lies in the ring; `entered` if there is none. */
static u64 oldest(const struct ilk_ring *ring, u64 number, u64 entered)
{
	u64 found = entered;
	u32 place;

	for (place = 0; place < ring->chunks; place++) {
		u64 here = READ_ONCE(ring->numbers[place]);

		if (here >= number && here < found)
			found = here;
	}
	return found;
}

/* Go on to the next chunk that still exists. */
static void skip(const struct ilk_ring *ring, struct ilk_reading *reading, u64 entered, u32 size)
{
	u64 number = reading->position / ILK_CHUNK + 1;
	u64 to = max(oldest(ring, number + 1, entered), number + 1) - 1;

	reading->overwritten += (to * ILK_CHUNK - reading->position) / size;
	reading->position = to * ILK_CHUNK;
}

struct place {
	char __user *to;
	size_t room;
	u32 size; /* bytes of a record */
};

/*
 * Copy the committed records of a chunk. Returns their bytes; 0: there are none, or the chunk was overwritten
 * meanwhile.
 */
static ssize_t copy(const struct ilk_ring *ring, struct ilk_reading *reading,
		    struct ilk_chunk *head, const struct place *place)
{
	u64 number = reading->position / ILK_CHUNK + 1;
	u32 taken = reading->position % ILK_CHUNK;
	u64 chunk = ring->base + (u64)reading->place * ILK_CHUNK;

	head->bytes = committed(chunk, taken, place->size,
				min_t(size_t, place->room - sizeof(*head), ILK_CHUNK));
	head->lost = READ_ONCE(ring->head->lost) + reading->overwritten;
	if (!head->bytes)
		return 0;
	if (copy_to_user(place->to, head, sizeof(*head)) ||
	    copy_to_user(place->to + sizeof(*head), (void *)(unsigned long)(chunk + taken),
			 head->bytes))
		return -EFAULT;
	smp_rmb();
	if (READ_ONCE(ring->numbers[reading->place]) != number)
		return 0;
	reading->position += head->bytes;
	smp_store_release(ring->tail, reading->position);
	return sizeof(*head) + head->bytes;
}

/* Copy records of at most one chunk. Returns how many bytes were copied. */
static ssize_t read_ring(struct ilk_buffers *buffers, u32 cpu, u32 class_, char __user *to,
			 size_t room)
{
	struct ilk_ring *ring = ilk_ring_of(buffers, cpu, class_);
	struct ilk_reading *reading = &buffers->reading[cpu * ILK_CLASSES + class_];
	struct place place = { .to = to, .room = room, .size = ilk_class_size(class_) };
	struct ilk_chunk head = { .cpu = cpu, .class_ = class_ };
	int tries;

	if (room < sizeof(head) + place.size)
		return 0;
	for (tries = 0; tries < TRIES; tries++) {
		u64 number = reading->position / ILK_CHUNK + 1;
		u64 entered = smp_load_acquire(&ring->head->entered);
		u32 found;

		if (number > entered)
			return 0;
		found = find(ring, number, reading->place);
		if (found != NOWHERE) {
			reading->place = found;
			return copy(ring, reading, &head, &place);
		}
		skip(ring, reading, entered, place.size);
	}
	return 0;
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
	buffers->next = (buffers->next + 1) % rings; /* so that each ring comes first in turn */
	return done;
}

/* Copy records until none is left or the buffer is full; read_mutex is held. */
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
