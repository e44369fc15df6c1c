/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Speculations: records are kept aside until the program commits or discards them.
 *
 * Ownership: all threads share an ACTIVE speculation; a record in it belongs to its writer, which is counted as a
 * writer meanwhile. When a speculation is committed or discarded and its last writer leaves, whoever sees that owns it,
 * and frees it. GD_SPEC_AT_ONCE limits how many bytes a clause moves itself in a commit, during which it counts as a
 * writer. If there are more, the caller of gd_settle_one() moves the rest, record by record.
 */
#ifndef GILK_D_SPECULATION_H
#define GILK_D_SPECULATION_H

#include "records.h"

#ifndef GD_SPECULATES
#define GD_SPECULATES 1 /* 0: no clause of the program speculates, which saves a third of the code */
#endif

#ifndef GD_SPEC_AT_ONCE
#define GD_SPEC_AT_ONCE (~0UL) /* bytes */
#endif

#define GD_SPEC_KEPT 0x80000000U /* set in the size of a record that its clause has committed */
#define GD_SPEC_ONE (1UL << GD_SPEC_WRITER)
#define GD_SPEC_STATE(word) ((word) & 3)
#define GD_SPEC_WRITERS(word) ((word) >> GD_SPEC_WRITER & 0x3fff)
#define GD_SPEC_BYTES(word) (((word) >> GD_SPEC_FILL & 0xffffff) * GD_GRANULE)

static inline struct gd_speculation *gd_speculation_at(struct gd_context *ctx, gd_u64 id)
{
	const struct gd_layout *l = ctx->layout;

	if (!id || id > l->speculations)
		return 0;
	return (struct gd_speculation *)(ctx->memory + l->speculation_first + (id - 1) * l->speculation_stride);
}

static inline gd_u64 gd_speculation(struct gd_context *ctx)
{
	bool busy = false;
	gd_u64 id;

	for (id = 1; id <= ctx->layout->speculations; id++) {
		struct gd_speculation *s = gd_speculation_at(ctx, id);
		gd_u64 word = gd_get(&s->word);

		if (GD_SPEC_STATE(word) == GD_SPEC_FREE && gilk_swap(&s->word, word, word | GD_SPEC_ACTIVE))
			return id;
		busy |= GD_SPEC_STATE(word) >= GD_SPEC_COMMITTING;
	}
	gd_drop(ctx, busy ? GD_DROP_SPECULATION_BUSY : GD_DROP_SPECULATION_UNAVAILABLE);
	return 0;
}

/* Send the clause's records to the speculation. Returns false if it is not active; then the clause has to end. */
static inline bool gd_speculate(struct gd_context *ctx, gd_u64 id)
{
	struct gd_speculation *s = gd_speculation_at(ctx, id);

	ctx->speculation = s ? (gd_u32)id : ~0U;
	return s && GD_SPEC_STATE(gd_get(&s->word)) == GD_SPEC_ACTIVE;
}

static inline bool gd_reserve_speculative(struct gd_context *ctx, gd_u32 epid, gd_u32 size)
{
	struct gd_speculation *s = gd_speculation_at(ctx, ctx->speculation);
	gd_u64 bytes = gd_granules(size), word, add;

	if (!s)
		return false;
	add = (bytes / GD_GRANULE << GD_SPEC_FILL) + GD_SPEC_ONE;
	do {
		word = gd_get(&s->word);
		if (GD_SPEC_STATE(word) != GD_SPEC_ACTIVE)
			return false;
		if (GD_SPEC_BYTES(word) + bytes > ctx->layout->speculation_size || GD_SPEC_WRITERS(word) == 0x3fff
		    || !host_has_room()) {
			gd_drop(ctx, GD_DROP_SPECULATION);
			return false;
		}
	} while (!gilk_swap(&s->word, word, word + add));
	gd_head(ctx, (struct gd_record *)((gd_u8 *)(s + 1) + GD_SPEC_BYTES(word)), epid, size);
	return true;
}

/* Copy a record to this processor's principal buffer; only its processor number changes. */
static inline void gd_move_record(struct gd_context *ctx, const struct gd_record *from, gd_u32 size)
{
	struct gd_taken to = gd_take_record(gd_writer(ctx), gd_granules(size - sizeof *from));

	if (!to.record)
		return;
	gd_bcopy(to.record, from, size);
	to.record->size = size;
	gd_put(to.mark, (to.value & ~3UL) | GD_DONE);
}

/* Move the record at *at, and advance *at to the next one. Returns false if there is none. */
static inline bool gd_move_next(struct gd_context *ctx, struct gd_speculation *s, gd_u64 fill, gd_u64 *at)
{
	struct gd_record *record = (struct gd_record *)((gd_u8 *)(s + 1) + *at);
	gd_u32 word, size;

	if (*at >= fill || fill > ctx->layout->speculation_size)
		return false;
	word = *(volatile gd_u32 *)&record->size;
	size = word & ~GD_SPEC_KEPT;
	if (size < sizeof *record || size > fill - *at)
		return false; /* scribbled on */
	if (word & GD_SPEC_KEPT)
		gd_move_record(ctx, record, size);
	*at += gd_granules(size - sizeof *record);
	return true;
}

static inline void gd_move_records(struct gd_context *ctx, struct gd_speculation *s, gd_u64 fill)
{
	gd_u64 at = 0;

	while (gd_move_next(ctx, s, fill, &at))
		GD_LOOP();
}

/* Move or drop all records, and free the speculation: it has no writers, and gets none any more. */
static inline void gd_close(struct gd_context *ctx, struct gd_speculation *s, gd_u64 word)
{
	if (GD_SPEC_STATE(word) == GD_SPEC_COMMITTING)
		gd_move_records(ctx, s, GD_SPEC_BYTES(word));
	gd_put(&s->word, ((word >> GD_SPEC_GENERATION) + 1) << GD_SPEC_GENERATION);
}

/* Move the next record that a commit has left, at *at, which begins as 0. Returns false if none is left. */
static inline bool gd_settle_one(struct gd_context *ctx, gd_u64 id, gd_u64 *at)
{
	struct gd_speculation *s = gd_speculation_at(ctx, id);
	gd_u64 word = s ? gd_get(&s->word) : 0;

	if (GD_SPEC_STATE(word) != GD_SPEC_COMMITTING || GD_SPEC_WRITERS(word))
		return false;
	if (gd_move_next(ctx, s, GD_SPEC_BYTES(word), at))
		return true;
	gd_put(&s->word, ((word >> GD_SPEC_GENERATION) + 1) << GD_SPEC_GENERATION);
	return false;
}

static inline bool gd_is_for_now(gd_u64 word)
{
	return GD_SPEC_STATE(word) == GD_SPEC_DISCARDING || GD_SPEC_BYTES(word) <= GD_SPEC_AT_ONCE;
}

/* Takes single values of the context and the event, so that on the usual path these can stay in registers. */
GD_COLD void gd_settle_speculative(struct gd_writer by, gd_u32 speculation, gd_u8 *data, bool keep)
{
	struct gd_event event = {.cpu = by.cpu, .tid = by.tid};
	struct gd_context ctx = {.memory = by.memory, .layout = by.layout, .event = &event};
	struct gd_speculation *s = gd_speculation_at(&ctx, speculation);
	struct gd_record *record = (struct gd_record *)data - 1;
	gd_u64 word;

	if (keep)
		record->size |= GD_SPEC_KEPT;
	word = __atomic_sub_fetch(&s->word, GD_SPEC_ONE, __ATOMIC_SEQ_CST);
	if (GD_SPEC_STATE(word) >= GD_SPEC_COMMITTING && !GD_SPEC_WRITERS(word)
	    && (GD_SPEC_AT_ONCE == ~0UL || GD_SPEC_STATE(word) == GD_SPEC_DISCARDING))
		gd_close(&ctx, s, word);
}

static inline void gd_finish_speculation(struct gd_context *ctx, gd_u64 id, enum gd_speculating how)
{
	struct gd_speculation *s = gd_speculation_at(ctx, id);
	gd_u64 word, to;

	if (id > ctx->layout->speculations)
		gd_fail(ctx, GD_FAULT_ILLEGAL, 0);
	if (!s)
		return;
	do {
		word = gd_get(&s->word);
		if (GD_SPEC_STATE(word) != GD_SPEC_ACTIVE)
			return;
		to = (word & ~3UL) | how;
		if (!GD_SPEC_WRITERS(word) && gd_is_for_now(to))
			to += GD_SPEC_ONE;
	} while (!gilk_swap(&s->word, word, to));
	if (!GD_SPEC_WRITERS(word) && gd_is_for_now(to))
		gd_close(ctx, s, to);
}

static inline void gd_commit_speculation(struct gd_context *ctx, gd_u64 id)
{
	gd_finish_speculation(ctx, id, GD_SPEC_COMMITTING);
}

static inline void gd_discard_speculation(struct gd_context *ctx, gd_u64 id)
{
	gd_finish_speculation(ctx, id, GD_SPEC_DISCARDING);
}

static inline __attribute__((__always_inline__)) void gd_settle(struct gd_context *ctx, bool keep)
{
	if (!ctx->data)
		return;
	if (!GD_SPECULATES || gd_likely(ctx->mark))
		gd_settle_principal(ctx, keep);
	else
		gd_settle_speculative(gd_writer(ctx), ctx->speculation, ctx->data, keep);
	ctx->data = 0;
}

static inline void gd_commit(struct gd_context *ctx)
{
	gd_settle(ctx, true);
}

static inline void gd_discard(struct gd_context *ctx)
{
	gd_settle(ctx, false);
}

/* Reserve room for the data of a record at ctx->data. Commits a record that is still open first. */
static inline bool gd_reserve(struct gd_context *ctx, gd_u32 epid, gd_u32 size)
{
	gd_commit(ctx);
	if (GD_SPECULATES && ctx->speculation)
		return gd_reserve_speculative(ctx, epid, size);
	return gd_reserve_principal(ctx, epid, size);
}

#endif
