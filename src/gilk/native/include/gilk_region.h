/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * An index of an aspect's instances by keys, the numbers or pointers that they have bound, and by regions, the memory
 * that they watch. It finds the instances that an event may concern.
 *
 * A region is divided into granules of 8, 64, 512, ... bytes: the smallest size by which it has at most GILK_GRANULES
 * of them. A hash of each granule, or of a key, selects a bucket, which has the instance's number and serial number.
 * The search compares an entry with the instance itself, and then with the access, so entries need not be removed when
 * an instance ends; a new entry replaces one of an ended instance.
 *
 * A thread that begins or moves an instance adds its keys and regions while the instance is busy. So another thread
 * that has got the address from the program since then finds them. If the buckets of a hash are full, searches for that
 * hash examine all open instances from then on.
 */
#ifndef GILK_REGION_H
#define GILK_REGION_H

#include "gilk_aspect.h"

#define GILK_WAYS 7
#define GILK_PROBES 8
#define GILK_GRANULES 8
#define GILK_CANDIDATES 64
#define GILK_MOST_GRANULES 64 /* granules of an access */
#define GILK_KEYS 64 /* levels from this one on are keys */
#define GILK_NUMBERS 0xffffffUL

struct gilk_bucket {
	gilk_u64 way[GILK_WAYS]; /* an instance's number plus 1, and above 24 bits its serial number */
	gilk_u64 spilled;	 /* the bucket was full once: further entries are in the next one */
};

struct gilk_regions {
	gilk_u64 levels; /* a bit for each size of granules that was ever used */
	gilk_u64 unused[7];
	struct gilk_bucket bucket[];
};

static inline struct gilk_regions *gilk_regions(const struct gilk_aspect_part *part)
{
	return (struct gilk_regions *)((char *)&gilk_shared + (gilk_limits(part)->index >> 8));
}

static inline struct gilk_bucket *gilk_bucket(const struct gilk_aspect_part *part, gilk_u64 granule, gilk_u64 level,
					      gilk_u64 probe)
{
	gilk_u64 bits = gilk_limits(part)->index & 0xff, hash = (granule ^ level << 56) * 0x9e3779b97f4a7c15UL;

	hash = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9UL;
	return gilk_regions(part)->bucket + (((hash >> (64 - bits)) + probe) & ((1UL << bits) - 1));
}

static inline gilk_u64 gilk_region_slot(const struct gilk_aspect_part *part, const struct gilk_instance *one)
{
	return one->serial << 24 | ((gilk_u64)(one - gilk_instance(part, 0)) + 1);
}

/* Whether the slot's instance has ended. */
static inline int gilk_slot_is_free(const struct gilk_aspect_part *part, gilk_u64 slot)
{
	gilk_u64 number = (slot & GILK_NUMBERS) - 1, word;
	const struct gilk_instance *one;

	if (!slot || number >= gilk_limits(part)->limit)
		return 1;
	one = gilk_instance(part, number);
	word = __atomic_load_n(&one->word, __ATOMIC_ACQUIRE);
	if (gilk_region_slot(part, one) != slot) /* also while its successor is being written */
		return 1;
	return !(word & GILK_BUSY) && !gilk_stage(word);
}

static inline int gilk_put_into(const struct gilk_aspect_part *part, struct gilk_bucket *bucket, gilk_u64 slot)
{
	gilk_u64 seen;
	int n;

	for (n = 0; n < GILK_WAYS; n++) {
		seen = __atomic_load_n(&bucket->way[n], __ATOMIC_RELAXED);
		if (seen == slot || (gilk_slot_is_free(part, seen) && gilk_swap(&bucket->way[n], seen, slot)))
			return 1;
	}
	__atomic_store_n(&bucket->spilled, 1, __ATOMIC_RELAXED);
	return 0;
}

static inline void gilk_raise(gilk_u64 *word, gilk_u64 to)
{
	gilk_u64 now = __atomic_load_n(word, __ATOMIC_RELAXED);

	while (now < to && gilk_afford() && !__atomic_compare_exchange_n(word, &now, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
}

static inline void gilk_note_hashed(const struct gilk_aspect_part *part, gilk_u64 value, gilk_u64 level, gilk_u64 slot)
{
	gilk_u64 probe;

	for (probe = 0; probe < GILK_PROBES; probe++)
		if (gilk_put_into(part, gilk_bucket(part, value, level, probe), slot))
			return; /* otherwise all buckets are spilled, see gilk_hashed() */
}

/* Add a key's value to the index, for an instance that this thread has made busy. */
static inline void gilk_note_key(const struct gilk_aspect_part *part, const struct gilk_instance *one, gilk_u64 key,
				 gilk_u64 value)
{
	gilk_note_hashed(part, value, GILK_KEYS + key, gilk_region_slot(part, one));
}

/* Add a watched region to the index, for an instance that this thread has made busy. */
static inline void gilk_note_region(const struct gilk_aspect_part *part, const struct gilk_instance *one, gilk_u64 start,
				    long length)
{
	struct gilk_regions *regions = gilk_regions(part);
	gilk_u64 last, granule, level = 0, slot = gilk_region_slot(part, one);

	if (length <= 0)
		return;
	last = start + (gilk_u64)length - 1;
	last = last < start ? ~0UL : last;
	gilk_raise(&gilk_shared.below, ~(start < 64 ? 0 : start - 64));
	gilk_raise(&gilk_shared.above, last + 1 ? last + 1 : last);
	while ((last >> (3 + 3 * level)) - (start >> (3 + 3 * level)) >= GILK_GRANULES)
		level++;
	if (!(__atomic_load_n(&regions->levels, __ATOMIC_RELAXED) >> level & 1))
		__atomic_fetch_or(&regions->levels, 1UL << level, __ATOMIC_RELAXED);
	for (granule = start >> (3 + 3 * level); granule <= last >> (3 + 3 * level); granule++)
		gilk_note_hashed(part, granule, level, slot);
}

/* One of 64 bits for a number. If it is not set in `seen`, the number has not been found yet. */
static inline gilk_u64 gilk_mark(unsigned number)
{
	return 1UL << (number & 63);
}

/*
 * Append the numbers in a bucket to those that were found, whose marks are in `seen`. Returns how many there are then,
 * or GILK_CANDIDATES + 1 if there are too many.
 */
static inline unsigned gilk_named(const struct gilk_bucket *bucket, unsigned *found, unsigned count, gilk_u64 *seen)
{
	unsigned n, number, at;

	for (n = 0; n < GILK_WAYS; n++) {
		number = (unsigned)(__atomic_load_n(&bucket->way[n], __ATOMIC_RELAXED) & GILK_NUMBERS);
		if (!number)
			continue;
		at = *seen & gilk_mark(number - 1) ? 0 : count;
		while (at < count && found[at] != number - 1)
			at++;
		if (at < count)
			continue;
		*seen |= gilk_mark(number - 1);
		if (count == GILK_CANDIDATES)
			return GILK_CANDIDATES + 1;
		found[count++] = number - 1;
	}
	return count;
}

/* Append all numbers that a hash leads to, in the same way. */
static inline unsigned gilk_hashed(const struct gilk_aspect_part *part, gilk_u64 value, gilk_u64 level, unsigned *found,
				   unsigned count)
{
	const struct gilk_bucket *bucket;
	gilk_u64 probe, seen = 0;
	unsigned at;

	for (at = 0; at < count && at < GILK_CANDIDATES; at++)
		seen |= gilk_mark(found[at]);
	for (probe = 0; probe < GILK_PROBES && count <= GILK_CANDIDATES; probe++) {
		bucket = gilk_bucket(part, value, level, probe);
		count = gilk_named(bucket, found, count, &seen);
		if (!__atomic_load_n(&bucket->spilled, __ATOMIC_RELAXED))
			return count;
	}
	return GILK_CANDIDATES + 1;
}

/* Append the numbers of all instances that may have this value for a key. */
static inline unsigned gilk_keyed(const struct gilk_aspect_part *part, gilk_u64 key, gilk_u64 value, unsigned *found,
				  unsigned count)
{
	return gilk_hashed(part, value, GILK_KEYS + key, found, count);
}

/*
 * Store the numbers of all instances that may watch the accessed memory, each once. Returns how many there are;
 * GILK_CANDIDATES + 1: all instances have to be examined. An instance that is found may have ended, may watch other
 * memory, or may be beyond the limit.
 */
static inline unsigned gilk_regions_near(const struct gilk_aspect_part *part, gilk_u64 address, gilk_u64 size,
					 unsigned *found)
{
	const struct gilk_regions *regions = gilk_regions(part);
	gilk_u64 levels = __atomic_load_n(&regions->levels, __ATOMIC_RELAXED), level, granule, last;
	unsigned count = 0;

	if (address + size < address)
		return GILK_CANDIDATES + 1;
	for (level = 0; level <= 20 && levels >> level; level++) {
		granule = address >> (3 + 3 * level);
		last = (address + size - 1) >> (3 + 3 * level);
		if (!(levels >> level & 1))
			continue;
		if (last - granule > GILK_MOST_GRANULES)
			return GILK_CANDIDATES + 1;
		for (; granule <= last && count <= GILK_CANDIDATES; granule++)
			count = gilk_hashed(part, granule, level, found, count);
	}
	return count;
}

/*
 * Whether an access of `size` bytes, `offset` bytes behind the start of a region of `length` bytes, touches the region.
 */
static inline int gilk_reaches(long offset, gilk_u64 size, long length)
{
	return length > 0 && offset > -(long)size && offset < length;
}

#endif
