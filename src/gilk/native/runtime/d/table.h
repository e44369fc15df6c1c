/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Tables of aggregations: an entry for each key. The protocol is in gilk_d.h.
 *
 * Ownership: room in the heap belongs to whoever has reserved it, until the entry is published. From then on nobody
 * changes the key, and each change of a cell is one instruction (host_add_own(), host_swap_own()).
 */
#ifndef GILK_D_TABLE_H
#define GILK_D_TABLE_H

#include "bytes.h"

#ifndef GD_PROBES /* slots that are probed; fewer where the time of a clause is limited */
#define GD_PROBES 1024
#endif

struct gd_shard { /* the table of one processor in one bank */
	gd_u8 *table;
	const struct gd_layout *layout;
};

struct gd_sought { /* an entry that is looked up or created */
	gd_u32 number;
	gd_u32 key_size;
	gd_u32 cells;
	const void *key;
};

static inline gd_u64 gd_entry_bytes(const struct gd_sought *s)
{
	return sizeof(struct gd_entry) + gd_round8(s->key_size) + s->cells * 8UL;
}

static inline gd_u64 *gd_cells(struct gd_entry *entry, gd_u32 key_size)
{
	return (gd_u64 *)((gd_u8 *)(entry + 1) + gd_round8(key_size));
}

/* The table that all updates of a clause go to; the first update chooses it. */
static inline struct gd_shard gd_shard(struct gd_context *ctx)
{
	const struct gd_layout *l = ctx->layout;

	if (!ctx->table) {
		gd_u64 bank = gd_get32(&gd_control(ctx)->bank) & (GD_BANKS - 1), shard = gd_cpu(ctx) & (l->shards - 1);

		ctx->table = ctx->memory + l->table_first + (bank * l->shards + shard) * l->table_stride;
	}
	return (struct gd_shard){ctx->table, l};
}

static inline struct gd_entry *gd_heap_at(struct gd_shard t, gd_u64 at)
{
	return (struct gd_entry *)(t.table + t.layout->table_heap + at);
}

/* The entry at a place; null if an entry of that size cannot lie there. */
static inline struct gd_entry *gd_entry_at(struct gd_shard t, const struct gd_sought *s, gd_u32 words)
{
	gd_u64 at = words * 8UL;

	if (gd_unlikely(at + gd_entry_bytes(s) > t.layout->heap_size))
		return 0;
	return gd_heap_at(t, at);
}

static inline bool gd_is_entry(const struct gd_entry *entry, const struct gd_sought *s)
{
	return entry->number == s->number && entry->key_size == s->key_size && entry->cells == s->cells
	       && gd_same(entry + 1, s->key, s->key_size);
}

/* Fill a new entry, which no other thread can see yet. Returns its place in words; 0: no room. */
static inline gd_u32 gd_make_entry(struct gd_shard t, const struct gd_sought *s)
{
	gd_u64 *used = &((struct gd_table *)t.table)->used, at, end;
	struct gd_entry *entry;

	do {
		gd_u64 seen = gd_get(used);

		at = seen < GD_GRANULE ? GD_GRANULE : gd_round8(seen);
		end = at + gd_entry_bytes(s);
		if (at > t.layout->heap_size || end > t.layout->heap_size || !host_has_room())
			return 0;
		if (host_swap_own(used, seen, end))
			break;
	} while (1);
	entry = gd_heap_at(t, at);
	entry->number = s->number;
	entry->key_size = s->key_size;
	entry->cells = s->cells;
	gd_bcopy(entry + 1, s->key, s->key_size);
	return (gd_u32)(at / 8);
}

/* Discard an entry that was not published. Its room is reclaimed if nothing behind it has been reserved. */
static inline void gd_unmake_entry(struct gd_shard t, const struct gd_sought *s, gd_u32 words)
{
	gd_u64 at = words * 8UL;

	gd_zero(gd_heap_at(t, at), sizeof(struct gd_entry) + s->key_size);
	host_swap_own(&((struct gd_table *)t.table)->used, at + gd_entry_bytes(s), at);
}

/* The value of a slot, and an entry that was created and is not used yet. */
struct gd_filled {
	gd_u64 value;
	gd_u32 made;
};

/*
 * The value of the slot, after putting a new entry into it if it was empty; value 0: no room. `s` is passed by value,
 * so that the compiler keeps what it knows about the sizes on the usual path.
 */
GD_COLD struct gd_filled gd_fill_slot(struct gd_shard t, struct gd_sought s, gd_u64 *slot, gd_u64 hash, gd_u32 made)
{
	gd_u64 value;

	if (!made)
		made = gd_make_entry(t, &s);
	if (!made)
		return (struct gd_filled){0, 0};
	value = (hash >> 32 << 32) | made;
	if (!host_swap_own(slot, 0, value))
		return (struct gd_filled){gd_get(slot), made};
	return (struct gd_filled){value, 0};
}

static inline gd_u32 gd_probe(struct gd_shard t, const struct gd_sought *s, gd_u32 *made)
{
	gd_u64 *slots = (gd_u64 *)(t.table + t.layout->table_slot);
	gd_u64 hash = gd_hash(s->number, s->key, s->key_size), mask = t.layout->table_slots - 1, n;

	for (n = 0; n <= mask && n < GD_PROBES; n++) {
		gd_u64 *slot = &slots[(hash + n) & mask], value = gd_get(slot);
		struct gd_entry *entry;

		if (gd_unlikely(!value)) {
			struct gd_filled filled = gd_fill_slot(t, *s, slot, hash, *made);

			value = filled.value;
			*made = filled.made;
			if (!value)
				return 0;
		}
		if (value >> 32 != hash >> 32)
			continue;
		entry = gd_entry_at(t, s, (gd_u32)value);
		if (entry && gd_is_entry(entry, s))
			return (gd_u32)value;
	}
	return 0;
}

/* The place of the entry in words; 0: the update is dropped, and counted. */
static inline gd_u32 gd_find_entry(struct gd_context *ctx, const struct gd_sought *s)
{
	struct gd_shard t = gd_shard(ctx);
	gd_u32 made = 0, words = gd_probe(t, s, &made);

	if (gd_unlikely(made))
		gd_unmake_entry(t, s, made);
	if (gd_unlikely(!words))
		gd_drop(ctx, GD_DROP_AGGREGATION);
	return words;
}

/* An aggregation without a key, in the layout in which it is passed on the stack. */
struct gd_keyless {
	struct gd_shard shard;
	gd_u64 number, cells;
};

static inline gd_u32 *gd_direct(const struct gd_keyless *k)
{
	return (gd_u32 *)(k->shard.table + k->shard.layout->table_direct) + k->number;
}

/* The place of the entry in words; 0: no room. */
GD_COLD gd_u32 gd_find_keyless(struct gd_keyless k)
{
	struct gd_sought sought = {(gd_u32)k.number, 0, (gd_u32)k.cells, 0};
	gd_u32 made = 0, words = gd_probe(k.shard, &sought, &made);

	if (made)
		gd_unmake_entry(k.shard, &sought, made);
	if (words)
		host_swap32_own(gd_direct(&k), 0, words);
	return words;
}

#ifdef __SSE2__
#define gd_ask_keyless(k) gd_find_keyless(*(k))
#else
/*
 * An ordinary call may change nine registers, so the compiler would keep values in others, which every hit would have
 * to save. This call pushes its arguments, steps over the red zone, and changes no register but that of its result. It
 * declares no change of memory: it changes nothing of the caller's, and other threads may change the table at any time
 * anyway.
 */
static inline gd_u32 gd_ask_keyless(const struct gd_keyless *k)
{
	gd_u64 words;

	__asm__ volatile("lea -128(%%rsp), %%rsp\n\t"
			 "push %[cells]\n\tpush %[number]\n\tpush %[layout]\n\tpush %[table]\n\t"
			 "call gd_find_keyless\n\t"
			 "lea 160(%%rsp), %%rsp"
			 : "=a"(words)
			 : [table] "r"(k->shard.table), [layout] "0"(k->shard.layout), [number] "ri"(k->number),
			   [cells] "ri"(k->cells), "m"(*(const char *)gd_find_keyless) /* not unused */
			 : "cc");
	return (gd_u32)words;
}
#endif

static inline struct gd_entry *gd_keyless_entry(struct gd_context *ctx, gd_u32 number, gd_u32 cells)
{
	struct gd_keyless k = {gd_shard(ctx), number, cells};
	struct gd_shard t = k.shard;
	gd_u32 words = gd_get32(gd_direct(&k));

	if (gd_unlikely(!words))
		words = gd_ask_keyless(&k);
	if (gd_unlikely(!words || words * 8UL + sizeof(struct gd_entry) + cells * 8UL > t.layout->heap_size)) {
		gd_drop(ctx, GD_DROP_AGGREGATION);
		return 0;
	}
	return gd_heap_at(t, words * 8UL);
}

static inline struct gd_entry *gd_keyed_entry(struct gd_context *ctx, gd_u32 number, const void *key, gd_u32 key_size,
					      gd_u32 cells)
{
	struct gd_sought sought = {number, key_size, cells, key};
	gd_u32 words = gd_find_entry(ctx, &sought);

	return gd_likely(words) ? gd_entry_at(gd_shard(ctx), &sought, words) : 0;
}

/* The entry for a key; null: the update is dropped, and counted. */
static inline struct gd_entry *gd_entry_for(struct gd_context *ctx, gd_u32 number, const void *key, gd_u32 key_size,
					    gd_u32 cells)
{
	if (!key_size)
		return gd_keyless_entry(ctx, number, cells);
	return gd_keyed_entry(ctx, number, key, key_size, cells);
}

#endif
