/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tables of aspects, in the common state (gilk_aspect.h includes this). The threads of all processes add to them; the
 * weaver reads them, and believes nothing in them.
 */
#ifndef GILK_TABLE_H
#define GILK_TABLE_H

/* Tables: open addressing. An entry belongs to who has swapped its state from 0; its key is there when that is 2. */

#define GILK_KEY 64
#define GILK_ENTRIES 4096

struct gilk_table_head {
	gilk_u64 lost;
	gilk_u64 unused[7];
};

struct gilk_table_entry {
	gilk_u64 state, count;
	long sum, least, most;
	gilk_u64 unused[3];
	char key[GILK_KEY];
};

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
		__builtin_ia32_pause();
	return __atomic_load_n(&entry->state, __ATOMIC_ACQUIRE) == 2 && !gilk_differ(entry->key, key, GILK_KEY);
}

static inline struct gilk_table_entry *gilk_entry(struct gilk_table_head *table, const char *key)
{
	struct gilk_table_entry *entries = (struct gilk_table_entry *)(table + 1), *entry;
	gilk_u64 at = gilk_hash(key), n;

	for (n = 0; n < GILK_ENTRIES && gilk_afford(); n++, at++) {
		entry = entries + (at & (GILK_ENTRIES - 1));
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

/* key: GILK_KEY bytes, zeros behind what it has. */
static inline void gilk_table_add(gilk_u64 at, const char *key, long amount)
{
	struct gilk_table_entry *entry = gilk_entry((struct gilk_table_head *)((char *)&gilk_shared + at), key);
	long seen;

	if (!entry)
		return;
	gilk_add(&entry->count, 1);
	gilk_add((gilk_u64 *)&entry->sum, (gilk_u64)amount);
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
