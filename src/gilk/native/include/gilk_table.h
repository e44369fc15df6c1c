/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tables of aspects, in the common state (gilk_aspect.h includes this). The threads of all processes add to them; the
 * weaver reads them, and trusts nothing in them.
 */
#ifndef GILK_TABLE_H
#define GILK_TABLE_H

#include "../abi/gilk_bucket.h"

/* Open addressing: an entry belongs to the thread that has changed its state from 0; its key is complete at state 2. */

#define GILK_KEY 64
#define GILK_ENTRIES 4096
/* The further values that an entry has, by the fold of its table. */
#define GILK_FOLDS_PLAIN 0
#define GILK_FOLDS_SQUARES 1
#define GILK_FOLDS_BUCKETS 2

struct gilk_table_head {
	gilk_u64 lost;
	gilk_u64 unused[7];
};

struct gilk_table_entry {
	gilk_u64 state, count;
	long sum, least, most;
	gilk_u64 squares[2]; /* for stddev: the sum of squares, low and high word */
	gilk_u64 unused;
	char key[GILK_KEY];
	gilk_u64 buckets[]; /* for quantize: GILK_BUCKETS + 1 counts */
};

static inline gilk_u64 gilk_entry_size(int folds)
{
	return sizeof(struct gilk_table_entry) + (folds == GILK_FOLDS_BUCKETS ? 8 * (GILK_BUCKETS + 1) : 0);
}

static inline gilk_u64 gilk_hash(const char *key)
{
	gilk_u64 hash = 0xcbf29ce484222325UL, word;
	int n;

	for (n = 0; n < GILK_KEY; n += 8) {
		__builtin_memcpy(&word, key + n, 8);
		hash = (hash ^ word) * 0x9e3779b97f4a7c15UL;
		hash ^= hash >> 29;
	}
	return hash;
}

static inline int gilk_entry_is(struct gilk_table_entry *entry, const char *key)
{
	int n;

	for (n = 0; n < GILK_LOOKS && __atomic_load_n(&entry->state, __ATOMIC_ACQUIRE) == 1 && gilk_afford(); n++)
		gilk_pause();
	return __atomic_load_n(&entry->state, __ATOMIC_ACQUIRE) == 2 && !gilk_differ(entry->key, key, GILK_KEY);
}

static inline struct gilk_table_entry *gilk_entry(struct gilk_table_head *table, gilk_u64 size, const char *key)
{
	struct gilk_table_entry *entry;
	gilk_u64 at = gilk_hash(key), n;

	for (n = 0; n < GILK_ENTRIES && gilk_afford(); n++, at++) {
		entry = (struct gilk_table_entry *)((char *)(table + 1) + (at & (GILK_ENTRIES - 1)) * size);
		if (gilk_entry_is(entry, key))
			return entry;
		if (!gilk_swap(&entry->state, 0, 1)) {
			if (gilk_entry_is(entry, key))
				return entry;
			continue;
		}
		gilk_copy(entry->key, key, GILK_KEY);
		__atomic_store_n(&entry->least, (long)(~0UL >> 1), __ATOMIC_RELAXED);
		__atomic_store_n(&entry->most, (long)(1UL << 63), __ATOMIC_RELAXED);
		__atomic_store_n(&entry->state, 2, __ATOMIC_RELEASE);
		return entry;
	}
	gilk_add(&table->lost, 1);
	return 0;
}

/* Add a square to the sum. A reader between the two additions sees the sum without its carry. */
static inline void gilk_add_square(gilk_u64 *sum, long value)
{
	unsigned __int128 square = (unsigned __int128)((__int128)value * value);
	gilk_u64 low = (gilk_u64)square, high = (gilk_u64)(square >> 64);

	high += __atomic_fetch_add(sum, low, __ATOMIC_RELAXED) + low < low;
	if (high)
		gilk_add(sum + 1, high);
}

/* Add an amount to the entry of a key. `key`: GILK_KEY bytes, filled up with zeros. */
static inline void gilk_table_add(gilk_u64 at, int folds, const char *key, long amount)
{
	struct gilk_table_head *table = (struct gilk_table_head *)((char *)&gilk_shared + at);
	struct gilk_table_entry *entry = gilk_entry(table, gilk_entry_size(folds), key);
	long seen;

	if (!entry)
		return;
	gilk_add(&entry->count, 1);
	gilk_add((gilk_u64 *)&entry->sum, (gilk_u64)amount);
	if (folds == GILK_FOLDS_SQUARES)
		gilk_add_square(entry->squares, amount);
	if (folds == GILK_FOLDS_BUCKETS)
		gilk_add(entry->buckets + gilk_quantize_bucket(amount), 1);
	seen = __atomic_load_n(&entry->least, __ATOMIC_RELAXED);
	while (amount < seen && gilk_afford() && !__atomic_compare_exchange_n(&entry->least, &seen, amount, 0, __ATOMIC_RELAXED,
							     __ATOMIC_RELAXED))
		;
	seen = __atomic_load_n(&entry->most, __ATOMIC_RELAXED);
	while (amount > seen && gilk_afford() && !__atomic_compare_exchange_n(&entry->most, &seen, amount, 0, __ATOMIC_RELAXED,
							     __ATOMIC_RELAXED))
		;
}

#endif
