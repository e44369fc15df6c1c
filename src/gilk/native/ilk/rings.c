// SPDX-License-Identifier: GPL-2.0
/*
 * Where records go: rings of chunks, one a CPU and class. The word that
 * generated code moves is the address of the next record (RINGS in ilk_abi.h);
 * when it stands at the end of a chunk, ilk_reserve_slow() takes it into another.
 * That is done with interrupts off, so nothing but an NMI can come in between,
 * and an NMI that finds a chunk being entered goes without its record.
 *
 * Which chunk may be entered: the next, if the reader has left it; in flight mode
 * the oldest that has no record under way, for whoever fills that would write into
 * another's. A reader sees by its number that a chunk was taken from it.
 */
#include <linux/irqflags.h>
#include <linux/percpu.h>
#include <asm/local.h>

#include "ilk.h"

#define NOWHERE (~0u)
#define TRIES 8u /* chunks looked at for one to give up */

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

/* Full chunks that have not been read, as the client says. */
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

/* A chunk to fill, or 0. */
static u64 enter(struct ilk_ring *ring, u32 size)
{
	u32 place = find_place(ring, size);

	if (place == NOWHERE)
		return 0;
	if (ring->numbers[place]) {
		WRITE_ONCE(ring->numbers[place], 0);
		smp_wmb(); /* who still reads it sees that before anything changes in it */
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
	smp_mb(); /* who polls sets `waiting`, and then looks at what was entered */
	if (READ_ONCE(ring->buffers->waiting) && unread(ring) > ring->buffers->watermark)
		irq_work_queue(&ring->buffers->wake);
}

static bool at_end(u64 wpos)
{
	return !(wpos & (ILK_CHUNK - 1));
}

/* The first record of another chunk, or 0. While one is entered nobody moves wpos. */
static u64 first_of_next(struct ilk_ring *ring, u32 size)
{
	u64 at = enter(ring, size);

	if (at)
		WRITE_ONCE(ring->wpos, at + size);
	return at;
}

/*
 * Where wpos was seen at the end of a chunk. True: `at` is a record in another, or 0
 * as there is none. False: an NMI has entered one since wpos was read, and is gone; who
 * entered the next one now would leave that one unfinished, and its reader would wait
 * there for ever.
 */
static bool leave_chunk(struct ilk_ring *ring, u32 size, u64 *at)
{
	bool still = true;

	*at = 0;
	if (ring->entering) /* by whom we have interrupted */
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

/* A record in the current chunk, or in one that is entered for it, or 0. Interrupts are off. */
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

/* A record in this CPU's ring `which` (class + ILK_CLASSES * set), or 0. In any context. */
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
