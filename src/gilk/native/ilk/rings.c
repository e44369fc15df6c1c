// SPDX-License-Identifier: GPL-2.0
/*
 * Rings of chunks for records, one for each CPU and class. Generated code advances a word, the address of the next
 * record (RINGS in ilk_abi.h); when that is at the end of a chunk, ilk_reserve_slow() sets it to another chunk. That
 * happens with interrupts off, so only an NMI can interrupt it, and an NMI that finds a chunk being entered drops its
 * record.
 *
 * The chunk that is entered is the next one, if the reader has left it; in flight mode it is the oldest one in which no
 * record is being written, since that writer would write into the new records. A reader notices by the chunk's number
 * that it was overwritten.
 */
#include <linux/irqflags.h>
#include <linux/percpu.h>
#include <asm/local.h>

#include "ilk.h"

#define NOWHERE (~0u)
#define TRIES 8u /* chunks that are tried for overwriting */

DEFINE_PER_CPU(struct ilk_ring, ilk_rings[ILK_RINGS]);

u32 ilk_class_size(u32 class_)
{
	static const u16 sizes[ILK_CLASSES] = { 16, 32, 64, 256 };

	return sizes[class_];
}

static u64 chunk_at(const struct ilk_ring *ring, u32 place)
{
	return ring->base + (u64)place * ILK_CHUNK;
}

static bool all_committed(u64 chunk, u32 size)
{
	u64 at;

#pragma GCC unroll 8
	for (at = chunk; at < chunk + ILK_CHUNK; at += size)
		if (!READ_ONCE(((struct gilk_record *)(unsigned long)at)->iid))
			return false;
	return true;
}

static void clear(u64 chunk, u32 size)
{
	u64 at;

#pragma GCC unroll 8
	for (at = chunk; at < chunk + ILK_CHUNK; at += size)
		WRITE_ONCE(((struct gilk_record *)(unsigned long)at)->iid, 0);
}

/* How many full chunks have not been read, according to the client. */
static u64 unread(const struct ilk_ring *ring)
{
	return ring->entered - READ_ONCE(*ring->tail) / ILK_CHUNK;
}

static u32 oldest_idle(const struct ilk_ring *ring, u32 size)
{
	u32 i, place;

	for (i = 0; i < TRIES && i < ring->chunks; i++) {
		place = (ring->place + i) & (ring->chunks - 1);
		if (!ring->numbers[place] || all_committed(chunk_at(ring, place), size))
			return place;
	}
	return NOWHERE;
}

static u32 find_place(const struct ilk_ring *ring, u32 size)
{
	if (ring->buffers->flags & ILK_FLIGHT)
		return oldest_idle(ring, size);
	return unread(ring) < ring->chunks ? ring->place : NOWHERE;
}

/* Enter a chunk, and return its address; 0: there is none. */
static u64 enter(struct ilk_ring *ring, u32 size)
{
	u32 place = find_place(ring, size);

	if (place == NOWHERE)
		return 0;
	if (ring->numbers[place]) {
		WRITE_ONCE(ring->numbers[place], 0);
		smp_wmb(); /* a reader of the chunk sees the new number before its content changes */
		clear(chunk_at(ring, place), size);
	}
	ring->place = (place + 1) & (ring->chunks - 1);
	ring->entered++;
	smp_store_release(&ring->numbers[place], ring->entered);
	smp_store_release(&ring->head->entered, ring->entered);
	return chunk_at(ring, place);
}

static void wake(const struct ilk_ring *ring)
{
	smp_mb(); /* pairs with poll(), which sets `waiting` and then reads `entered` */
	if (READ_ONCE(ring->buffers->waiting) && unread(ring) > ring->buffers->watermark)
		irq_work_queue(&ring->buffers->wake);
}

static bool at_end(u64 wpos)
{
	return !(wpos & (ILK_CHUNK - 1));
}

/* Reserve the first record of another chunk; 0: there is none. Nobody moves wpos while a chunk is being entered. */
static u64 first_of_next(struct ilk_ring *ring, u32 size)
{
	u64 at = enter(ring, size);

	if (at)
		WRITE_ONCE(ring->wpos, at + size);
	return at;
}

/*
 * Leave a chunk, after wpos was found at its end. True: `at` is a record in another chunk, or 0 as there is none.
 * False: an NMI has entered a chunk since wpos was read. Entering the next chunk now would leave that one unfinished,
 * and the reader would wait there for ever.
 */
static bool leave_chunk(struct ilk_ring *ring, u32 size, u64 *at)
{
	bool still = true;

	*at = 0;
	if (ring->entering) /* the interrupted code is entering a chunk */
		return true;
	WRITE_ONCE(ring->entering, true);
	barrier();
	still = at_end(READ_ONCE(ring->wpos));
	if (still)
		*at = first_of_next(ring, size);
	barrier();
	WRITE_ONCE(ring->entering, false);
	return still;
}

/* Reserve a record in the current chunk, or in a new one; 0: there is no room. Interrupts are off. */
static u64 reserve(struct ilk_ring *ring, u32 size)
{
	bool entered = false;
	u64 at;

	do {
		at = READ_ONCE(ring->wpos);
		if (!at)
			return 0;
		entered = at_end(at);
	} while (entered ? !leave_chunk(ring, size, &at) :
			   cmpxchg_local(&ring->wpos, at, at + size) != at);
	if (!at)
		local_inc((local_t *)&ring->head->lost);
	else if (entered)
		wake(ring);
	return at;
}

/* Count a record that has found no room elsewhere, for this CPU's ring `which`. The caller stays on the CPU. */
void ilk_lose_record(u32 which)
{
	struct ilk_ring *ring = raw_cpu_ptr(&ilk_rings[which]);

	if (READ_ONCE(ring->wpos))
		local_inc((local_t *)&ring->head->lost);
}

/*
 * Reserve a record in this CPU's ring `which` (class + ILK_CLASSES * set); 0: there is no room. Called in any context.
 */
u64 ilk_reserve_slow(u32 which)
{
	unsigned long flags;
	u64 at;

	if (which >= ILK_RINGS)
		return 0;
	raw_local_irq_save(flags);
	at = reserve(raw_cpu_ptr(&ilk_rings[which]), ilk_class_size(which % ILK_CLASSES));
	raw_local_irq_restore(flags);
	return at;
}
