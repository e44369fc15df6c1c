/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Access to the memory of the process that a clause runs in, any of which may be unmapped.
 *
 * The host reads it (host/host.h). An address that cannot be read is a fault of the clause, never a signal.
 *
 * Ownership: buffers are the caller's.
 */
#ifndef GILK_D_PEEK_H
#define GILK_D_PEEK_H

#include "bytes.h"

static inline gd_u32 gd_self(struct gd_context *ctx)
{
	if (!ctx->self)
		ctx->self = host_pid();
	return ctx->self;
}

static inline bool gd_is_ours(struct gd_context *ctx, gd_u64 address, gd_u64 size)
{
	gd_u64 at = address - (gd_u64)ctx->memory;

	return at < ctx->layout->size && size <= ctx->layout->size - at;
}

#ifndef GD_LOCALS
#define GD_LOCALS 0UL /* bytes of clause-local variables, if the program has pointers into them */
#endif

/*
 * How many bytes from `address` on a clause may read of D's own memory: its variables and the clause's scratch memory.
 */
static inline gd_u64 gd_readable(struct gd_context *ctx, gd_u64 address)
{
	gd_u64 of_globals = address - (gd_u64)ctx->memory - ctx->layout->globals;
	gd_u64 of_scratch = address - (gd_u64)ctx->scratch;

	gd_u64 globals = (ctx->layout->globals_size + GILK_PAGE - 1) & -GILK_PAGE; /* a whole page */

	if (ctx->scratch && of_scratch < ctx->scratch_used)
		return ctx->scratch_used - of_scratch;
	return of_globals < globals ? globals - of_globals : 0;
}

static inline bool gd_is_local(struct gd_context *ctx, gd_u64 address, gd_u64 size)
{
	gd_u64 room = GD_LOCALS, at;

	if (!room)
		return false;
	at = address - (gd_u64)ctx->local;
	return at < room && size <= room - at;
}

/* Whether the range overlaps D's own memory. */
static inline bool gd_meets_ours(struct gd_context *ctx, gd_u64 address, gd_u64 size)
{
	gd_u64 ours = (gd_u64)ctx->memory;

	return address - ours < ctx->layout->size || ours - address < size;
}

static inline bool gd_load(struct gd_context *ctx, void *to, gd_u64 address, gd_u64 size)
{
	if (gd_is_ours(ctx, address, size)) {
		gd_u64 room = gd_readable(ctx, address);

		if (!room || size > room)
			return gd_fail(ctx, room ? GD_FAULT_SIZE : GD_FAULT_ADDRESS, room ? size : address);
		gd_bcopy(to, (const void *)address, size);
		return true;
	}
	if (gd_is_local(ctx, address, size)) {
		gd_bcopy(to, (const void *)address, size);
		return true;
	}
	if ((ctx->no_memory && !ctx->self) || (size && host_peek(gd_self(ctx), to, address, size)))
		return gd_fail(ctx, GD_FAULT_ADDRESS, address);
	return true;
}

static inline bool gd_store(struct gd_context *ctx, gd_u64 address, const void *from, gd_u64 size)
{
	if (gd_meets_ours(ctx, address, size)) /* data of the D program, not of the process */
		return gd_fail(ctx, GD_FAULT_ADDRESS, address);
	if (gd_is_ours(ctx, (gd_u64)from, 1) && size > gd_readable(ctx, (gd_u64)from))
		return gd_fail(ctx, GD_FAULT_SIZE, size);
	if (ctx->no_memory || (size && host_poke(gd_self(ctx), address, from, size)))
		return gd_fail(ctx, GD_FAULT_ADDRESS, address);
	return true;
}

static inline bool gd_ends(const char *text, gd_u64 size)
{
	gd_u64 i;

	for (i = 0; i < size; i++) {
		if (!text[i])
			return true;
		GD_LOOP();
	}
	return false;
}

/*
 * The most bytes that a string at an address in D's own memory can have: it ends at the latest with the object it lies
 * in.
 */
static inline gd_u64 gd_string_room(struct gd_context *ctx, gd_u64 from, gd_u64 size)
{
	gd_u64 own = gd_is_ours(ctx, from, 1) ? gd_readable(ctx, from) : 0;

	return own && own < size ? own : size;
}

/* Copy a string page by page; a page is read only if the string has not ended before it. */
static inline bool gd_copyin_string(struct gd_context *ctx, char *to, gd_u64 from, gd_u64 size)
{
	gd_u64 got = 0, room = gd_string_room(ctx, from, size);

	if (!size)
		return gd_fail(ctx, GD_FAULT_SIZE, 0);
	if ((gd_u64)to - from < room) /* the copy itself lies in scratch memory behind the string */
		room = (gd_u64)to - from;
	while (got < room) {
		gd_u64 part = GILK_PAGE - ((from + got) & (GILK_PAGE - 1));

		part = part < room - got ? part : room - got;
		if (!gd_load(ctx, to + got, from + got, part)) {
			to[0] = 0;
			return false;
		}
		if (gd_ends(to + got, part))
			return true;
		got += part;
	}
	to[room < size ? room : size - 1] = 0;
	return true;
}

#endif
