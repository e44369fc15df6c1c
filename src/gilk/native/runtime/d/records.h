/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Principal buffers: the writer's side of the protocol in gilk_d.h.
 *
 * Ownership: a record belongs to its writer from the cmpxchg of its mark until the mark says DONE or VOID. Positions
 * belong to whoever moves them first by cmpxchg.
 */
#ifndef GILK_D_RECORDS_H
#define GILK_D_RECORDS_H

#include "bytes.h"

struct gd_place { /* a position in a buffer */
	struct gd_buffer *head;
	gd_u64 *marks;
	gd_u8 *data;
	gd_u64 size;
};

struct gd_writer { /* the part of a context that writing takes; so the context itself can stay in registers */
	gd_u8 *memory;
	const struct gd_layout *layout;
	gd_u32 cpu;
	gd_u32 tid;
};

struct gd_taken { /* the reserved record and the `value` of its mark; null: there was no room */
	struct gd_record *record;
	gd_u64 *mark;
	gd_u64 value;
};

static inline struct gd_writer gd_writer(struct gd_context *ctx)
{
	return (struct gd_writer){ctx->memory, ctx->layout, gd_cpu(ctx), ctx->event->tid};
}

static inline struct gd_place gd_buffer_of(struct gd_writer w)
{
	const struct gd_layout *l = w.layout;
	gd_u8 *at = w.memory + l->buffer_first + (w.cpu & (l->buffers - 1)) * l->buffer_stride;

	return (struct gd_place){(struct gd_buffer *)at, (gd_u64 *)(at + l->buffer_marks), at + l->buffer_data,
				 l->buffer_size};
}

static inline gd_u64 *gd_mark_at(const struct gd_place *b, gd_u64 position)
{
	return &b->marks[(position & (b->size - 1)) / GD_GRANULE];
}

/*
 * The number of the lap through the buffer; not 0 in practice, so that a mark that nobody has written belongs to no
 * lap.
 */
static inline gd_u64 gd_lap(const struct gd_place *b, gd_u64 position)
{
	return ((position >> __builtin_ctzl(b->size)) + 1) & 0xffffff;
}

static inline gd_u64 gd_marked_bytes(gd_u64 mark)
{
	return (mark >> GD_MARK_GRANULES & 0xffff) * GD_GRANULE;
}

static inline gd_u64 gd_make_mark(gd_u64 lap, gd_u32 tid, gd_u64 bytes, gd_u64 state)
{
	return lap << GD_MARK_LAP | (gd_u64)(tid & 0x3fffff) << GD_MARK_TID
	       | bytes / GD_GRANULE << GD_MARK_GRANULES | state;
}

/* Drop the oldest record of a ring. Returns false if it is still being written. */
static inline bool gd_evict(const struct gd_place *b)
{
	gd_u64 limit = gd_get(&b->head->limit);
	gd_u64 oldest = limit - b->size;
	gd_u64 mark = gd_get(gd_mark_at(b, oldest));

	if (mark >> GD_MARK_LAP != gd_lap(b, oldest))
		return gd_get(&b->head->limit) != limit; /* else the memory is corrupt */
	if ((mark & 3) == GD_BUSY || !gd_marked_bytes(mark))
		return gd_get(&b->head->limit) != limit;
	host_swap_own(&b->head->limit, limit, limit + gd_marked_bytes(mark));
	return true;
}

static inline bool gd_no_room(gd_u64 policy, const struct gd_place *b)
{
	if (policy == GD_RING)
		return gd_evict(b);
	if (policy == GD_FILL)
		gd_put(&b->head->full, 1);
	return false;
}

enum gd_step { GD_AGAIN, GD_GOT, GD_NONE };

/*
 * Try once to reserve `bytes` at wpos. After GD_GOT, *at is the place of the record, and *mark the value of its mark.
 *
 * The end of the buffer is skipped only for a record that has room at the start: else it is left for smaller ones.
 */
static inline enum gd_step gd_try(struct gd_writer by, const struct gd_place *b, gd_u64 bytes, gd_u64 *at,
				  gd_u64 *mark)
{
	gd_u64 w = gd_get(&b->head->wpos), lap = gd_lap(b, w), seen;
	gd_u64 start = w & (b->size - 1) & -(gd_u64)GD_GRANULE;
	bool fits = start + bytes <= b->size;
	gd_u64 take = fits ? bytes : b->size - start;
	gd_u64 need = fits ? bytes : take + bytes;

	seen = gd_get(gd_mark_at(b, w));
	if (gd_get(&b->head->wpos) != w)
		return GD_AGAIN; /* the value may belong to a later lap */
	if (seen >> GD_MARK_LAP == lap) {
		if (!gd_marked_bytes(seen))
			return GD_NONE; /* the memory is corrupt */
		host_swap_own(&b->head->wpos, w, w + gd_marked_bytes(seen));
		return GD_AGAIN;
	}
	if (need > b->size)
		need = b->size; /* an empty buffer lets the next record begin at its start */
	if (w + need > gd_get(&b->head->limit) || !host_has_room())
		return gd_no_room(by.layout->policy, b) ? GD_AGAIN : GD_NONE;
	*mark = gd_make_mark(lap, by.tid, take, fits ? GD_BUSY : GD_VOID);
	if (!host_swap_own(gd_mark_at(b, w), seen, *mark))
		return GD_AGAIN;
	host_swap_own(&b->head->wpos, w, w + take);
	*at = start;
	return fits ? GD_GOT : GD_AGAIN;
}

/* Reserve `bytes`, a multiple of the granule. If there is no room, a drop is counted. */
static __attribute__((__noinline__, __unused__)) struct gd_taken gd_take_record(struct gd_writer by, gd_u64 bytes)
{
	struct gd_taken taken = {0, 0, 0};
	struct gd_place b = gd_buffer_of(by);
	enum gd_step step = GD_AGAIN;
	gd_u64 at = 0;
	gd_u32 tries;

	if (by.layout->policy == GD_FILL && gd_get(&b.head->full))
		return taken;
	if (bytes > GD_MAX_RECORD || bytes > b.size)
		step = GD_NONE;
	for (tries = 0; step == GD_AGAIN && tries < HOST_TRIES; tries++)
		step = gd_try(by, &b, bytes, &at, &taken.value);
	if (step == GD_GOT)
		return (struct gd_taken){(struct gd_record *)(b.data + at), gd_mark_at(&b, at), taken.value};
	if (by.layout->policy != GD_FILL || !gd_get(&b.head->full))
		gd_drop_on(by.memory, by.layout, by.cpu, GD_DROP_PRINCIPAL);
	return taken;
}

static inline gd_u64 gd_granules(gd_u64 size)
{
	return (size + sizeof(struct gd_record) + GD_GRANULE - 1) & -(gd_u64)GD_GRANULE;
}

static inline void gd_head(struct gd_context *ctx, struct gd_record *record, gd_u32 epid, gd_u32 size)
{
	const struct gd_event *event = ctx->event;

	record->size = size + sizeof *record;
	record->epid = epid;
	record->tsc = gd_time(ctx);
	record->tid = event->tid;
	record->pid = event->pid;
	record->cpu = gd_cpu(ctx);
	record->probe = event->probe;
	ctx->data = (gd_u8 *)(record + 1);
}

static inline bool gd_reserve_principal(struct gd_context *ctx, gd_u32 epid, gd_u32 size)
{
	struct gd_taken taken = gd_take_record(gd_writer(ctx), gd_granules(size));

	if (!taken.record)
		return false;
	gd_head(ctx, taken.record, epid, size);
	ctx->mark = taken.mark;
	ctx->done = (taken.value & ~3UL) | GD_DONE;
	return true;
}

static inline void gd_settle_principal(struct gd_context *ctx, bool keep)
{
	gd_put(ctx->mark, keep ? ctx->done : ctx->done | GD_VOID);
	ctx->mark = 0;
}

#endif
