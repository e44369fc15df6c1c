/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Dynamic variables: thread-local ones and associative arrays.
 *
 * How at most one slot of a key becomes a MEMBER: an inserter marks its slot INSERTING, and then scans every slot that
 * the key may lie in. If it finds a MEMBER of its key, it uses that. It marks every INSERTING slot of its key behind
 * its own as LOST. If it meets one before its own, that one wins: it marks its own slot as LOST and continues the scan
 * for the other slot, because the other inserter may be the code that this handler has interrupted. The scan for the
 * later of two INSERTING slots begins after the earlier one is visible, so it never misses it: only one of them becomes
 * a MEMBER.
 *
 * Ownership: CLAIMED and LOST slots belong to their inserter. Whoever holds a pin on a MEMBER or DOOMED slot may write
 * its value; a slot is not reused while it has pins.
 */
#ifndef GILK_D_DYNAMIC_H
#define GILK_D_DYNAMIC_H

#include "bytes.h"

#define GD_SLOT_STATE(word) ((word) & 7)
#define GD_ONE_PIN (1UL << GD_SLOT_PIN)
#define GD_PINS (0xfffUL << GD_SLOT_PIN)
#define GD_TAG (0x1ffffUL << GD_SLOT_TAG)

struct gd_wanted { /* a variable that is looked for, and the slot where the search begins */
	gd_u64 *words;
	gd_u32 *reach;
	gd_u64 mask;
	gd_u64 home;
	gd_u64 tag; /* shifted to its place in the slot's word */
	gd_u64 thread;
	gd_u32 variable;
	gd_u32 key_size;
	const void *key;
};

static inline struct gd_wanted gd_want(struct gd_context *ctx, gd_u32 variable, const void *key, gd_u32 key_size)
{
	const struct gd_layout *l = ctx->layout;
	gd_u64 thread = variable & GD_SELF ? ctx->event->thread : 0;
	gd_u64 hash = gd_hash(gd_mix(thread, variable), key, key_size);
	gd_u64 home = hash & (l->dynamic_slots - 1);

	return (struct gd_wanted){(gd_u64 *)(ctx->memory + l->dynamic_words),
				  (gd_u32 *)(ctx->memory + l->dynamic_reach) + home,
				  l->dynamic_slots - 1,
				  home,
				  hash >> 32 << GD_SLOT_TAG & GD_TAG,
				  thread,
				  variable,
				  key_size,
				  key};
}

static inline struct gd_variable *gd_variable_at(struct gd_context *ctx, gd_u64 slot)
{
	return (struct gd_variable *)(ctx->memory + ctx->layout->dynamic_first + slot * ctx->layout->dynamic_stride);
}

static inline gd_u8 *gd_value_of(struct gd_variable *v, gd_u32 key_size)
{
	return (gd_u8 *)(v + 1) + gd_round8(key_size);
}

static inline bool gd_slot_fits(struct gd_context *ctx, gd_u32 key_size, gd_u32 size)
{
	return ctx->layout->dynamic_slots
	       && sizeof(struct gd_variable) + gd_round8(key_size) + size <= ctx->layout->dynamic_stride;
}

static inline bool gd_unchanged(const gd_u64 *word, gd_u64 seen)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return !((gd_get(word) ^ seen) & ~GD_PINS);
}

/* Whether the slot, whose word was `seen`, has this key. */
static inline bool gd_slot_is(struct gd_context *ctx, const struct gd_wanted *w, gd_u64 slot, gd_u64 seen)
{
	struct gd_variable *v = gd_variable_at(ctx, slot);

	if ((seen & GD_TAG) != w->tag || v->thread != w->thread || v->variable != w->variable
	    || v->key_size != w->key_size || !gd_same(v + 1, w->key, w->key_size))
		return false;
	return gd_unchanged(&w->words[slot], seen);
}

/* Find the member with this key: its slot, and the value of its word. */
static inline bool gd_find(struct gd_context *ctx, const struct gd_wanted *w, gd_u64 *slot, gd_u64 *seen)
{
	gd_u32 reach = gd_get32(w->reach), n;

	for (n = 0; n < reach && n < GD_REACH; n++) {
		*slot = (w->home + n) & w->mask;
		*seen = gd_get(&w->words[*slot]);
		if (GD_SLOT_STATE(*seen) == GD_MEMBER && gd_slot_is(ctx, w, *slot, *seen))
			return true;
	}
	return false;
}

static inline gd_u64 gd_freed(gd_u64 word)
{
	return ((word >> GD_SLOT_VERSION) + 1) << GD_SLOT_VERSION; /* GD_FREE, no pins, no tag */
}

static inline gd_u64 gd_in_state(gd_u64 word, enum gd_slot state)
{
	return (word & ~7UL) | state;
}

static inline void gd_unpin(gd_u64 *word)
{
	gd_u64 seen, next;

	do {
		seen = gd_get(word);
		if (!(seen & GD_PINS))
			return; /* the memory is corrupt */
		next = seen - GD_ONE_PIN;
		if (GD_SLOT_STATE(next) == GD_DOOMED && !(next & GD_PINS))
			next = gd_freed(next);
	} while (!gilk_swap(word, seen, next));
}

static inline void gd_reach_to(gd_u32 *reach, gd_u32 count)
{
	gd_u32 seen = gd_get32(reach);

	while (seen < count && !gilk_swap32(reach, seen, count))
		seen = gd_get32(reach);
}

enum gd_look { GD_LOOK_ON, GD_LOOK_SWITCHED, GD_LOOK_OVER };

struct gd_candidate { /* a slot that may become a member */
	gd_u64 slot;
	gd_u64 word;
	gd_u64 distance; /* from home */
};

/* Compare the candidate with the slot at `distance`. */
static inline enum gd_look gd_meet(struct gd_context *ctx, const struct gd_wanted *w, struct gd_candidate *c,
				   gd_u64 distance)
{
	gd_u64 slot = (w->home + distance) & w->mask, seen;

	do {
		seen = gd_get(&w->words[slot]);
		if ((GD_SLOT_STATE(seen) != GD_MEMBER && GD_SLOT_STATE(seen) != GD_INSERTING)
		    || !gd_slot_is(ctx, w, slot, seen))
			return GD_LOOK_ON;
		if (GD_SLOT_STATE(seen) == GD_MEMBER) {
			gilk_swap(&w->words[c->slot], c->word, gd_in_state(c->word, GD_LOST));
			return GD_LOOK_OVER;
		}
		if (distance < c->distance) {
			if (!gilk_swap(&w->words[c->slot], c->word, gd_in_state(c->word, GD_LOST)))
				return GD_LOOK_OVER;
			*c = (struct gd_candidate){slot, seen, distance};
			return GD_LOOK_SWITCHED;
		}
	} while (!gilk_swap(&w->words[slot], seen, gd_in_state(seen, GD_LOST)));
	return GD_LOOK_ON;
}

/* Make the candidate a member, or the slot that it lost to. The candidate only moves nearer to home, so this ends. */
static inline void gd_elect(struct gd_context *ctx, const struct gd_wanted *w, struct gd_candidate c)
{
	gd_u64 distance = 0;

	while (distance < GD_REACH && distance < gd_get32(w->reach) && distance <= w->mask) {
		enum gd_look look = distance == c.distance ? GD_LOOK_ON : gd_meet(ctx, w, &c, distance);

		if (look == GD_LOOK_OVER)
			return;
		distance = look == GD_LOOK_SWITCHED ? 0 : distance + 1;
	}
	gilk_swap(&w->words[c.slot], c.word, gd_in_state(c.word, GD_MEMBER));
}

/* Claim a free slot, and fill in key and value: a candidate for gd_elect(). */
static inline bool gd_stand(struct gd_context *ctx, const struct gd_wanted *w, const void *from, gd_u32 size,
			    struct gd_candidate *c)
{
	for (c->distance = 0; c->distance < GD_REACH && c->distance <= w->mask; c->distance++) {
		gd_u64 *word = &w->words[c->slot = (w->home + c->distance) & w->mask], seen = gd_get(word);
		struct gd_variable *v = gd_variable_at(ctx, c->slot);

		if (GD_SLOT_STATE(seen) != GD_FREE || !gilk_swap(word, seen, gd_in_state(seen, GD_CLAIMED)))
			continue;
		v->thread = w->thread;
		v->variable = w->variable;
		v->key_size = w->key_size;
		gd_bcopy(v + 1, w->key, w->key_size);
		gd_bcopy(gd_value_of(v, w->key_size), from, size);
		gd_reach_to(w->reach, (gd_u32)c->distance + 1);
		c->word = gd_in_state(seen, GD_INSERTING) | w->tag;
		__atomic_store_n(word, c->word, __ATOMIC_SEQ_CST); /* visible to all threads before the scan begins */
		return true;
	}
	return false;
}

static inline bool gd_insert(struct gd_context *ctx, const struct gd_wanted *w, const void *from, gd_u32 size)
{
	struct gd_candidate c;
	gd_u64 *word, lost;

	if (!gd_stand(ctx, w, from, size, &c))
		return false;
	gd_elect(ctx, w, c);
	word = &w->words[c.slot];
	lost = gd_in_state(c.word, GD_LOST);
	if (gd_get(word) != lost)
		return true; /* it became a member; it may have been deleted since */
	gd_put(word, gd_freed(lost));
	return false;
}

static inline bool gd_overwrite(struct gd_context *ctx, const struct gd_wanted *w, const void *from, gd_u32 size)
{
	gd_u64 slot, seen;

	while (gd_find(ctx, w, &slot, &seen) && (seen & GD_PINS) != GD_PINS) {
		if (!gilk_swap(&w->words[slot], seen, seen + GD_ONE_PIN))
			continue;
		gd_bcopy(gd_value_of(gd_variable_at(ctx, slot), w->key_size), from, size);
		gd_unpin(&w->words[slot]);
		return true;
	}
	return false;
}

static inline bool gd_has_free_slot(const struct gd_wanted *w)
{
	gd_u64 n;

	for (n = 0; n < GD_REACH && n <= w->mask; n++)
		if (GD_SLOT_STATE(gd_get(&w->words[(w->home + n) & w->mask])) == GD_FREE)
			return true;
	return false;
}

static inline bool gd_dynamic_store(struct gd_context *ctx, gd_u32 variable, const void *key, gd_u32 key_size,
				    const void *from, gd_u32 size)
{
	struct gd_wanted w = gd_want(ctx, variable, key, key_size);
	gd_u32 tries;

	for (tries = 0; tries < HOST_TRIES && gd_slot_fits(ctx, key_size, size); tries++) {
		if (gd_overwrite(ctx, &w, from, size))
			return true;
		if (!host_has_room())
			break;
		if (gd_insert(ctx, &w, from, size))
			return true;
		if (!gd_has_free_slot(&w))
			break;
	}
	gd_drop(ctx, GD_DROP_DYNAMIC);
	return false;
}

static inline bool gd_dynamic_load(struct gd_context *ctx, gd_u32 variable, const void *key, gd_u32 key_size, void *to,
				   gd_u32 size)
{
	struct gd_wanted w = gd_want(ctx, variable, key, key_size);
	gd_u64 slot, seen;

	if (gd_slot_fits(ctx, key_size, size) && gd_find(ctx, &w, &slot, &seen)) {
		gd_bcopy(to, gd_value_of(gd_variable_at(ctx, slot), key_size), size);
		if (gd_unchanged(&w.words[slot], seen))
			return true;
	}
	gd_zero(to, size);
	return false;
}

static inline bool gd_delete_slot(gd_u64 *word, gd_u64 seen)
{
	return gilk_swap(word, seen, seen & GD_PINS ? gd_in_state(seen, GD_DOOMED) : gd_freed(seen));
}

static inline void gd_dynamic_delete(struct gd_context *ctx, gd_u32 variable, const void *key, gd_u32 key_size)
{
	struct gd_wanted w = gd_want(ctx, variable, key, key_size);
	gd_u64 slot, seen;
	gd_u32 tries;

	for (tries = 0; tries < HOST_TRIES; tries++) {
		if (!gd_slot_fits(ctx, key_size, 0) || !gd_find(ctx, &w, &slot, &seen))
			return;
		if (gd_delete_slot(&w.words[slot], seen))
			return;
	}
}

#endif
