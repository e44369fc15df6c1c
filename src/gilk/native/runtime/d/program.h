/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Functions that generated clauses call besides d.h: D's built-in variables, and copies of
 * data into records and keys.
 *
 * Ownership: buffers are the caller's.
 */
#ifndef GILK_D_PROGRAM_H
#define GILK_D_PROGRAM_H

#include "registers.h"
#include "d.h"

typedef signed char gd_s8;
typedef short gd_s16;
typedef int gd_s32;

/*
 * Copy as much of a string as fits, and fill the rest with zeroes, since keys are compared as bytes. Null is the empty
 * string.
 */
static inline void gd_put_string(void *to, const char *from, gd_u64 size)
{
	char *out = to;
	gd_u64 i = 0;

	for (; from && i + 1 < size && from[i]; i++) {
		out[i] = from[i];
		GD_LOOP();
	}
	gd_zero(out + i, size - i);
}

/* The first byte of a string variable that is NULL, in programs where a string can be NULL. */
#define GD_NULL_MARK 0x7f

static inline const char *gd_text(const char *text)
{
	return text[0] == GD_NULL_MARK && !text[1] ? 0 : text;
}

static inline void gd_put_text(char *to, const char *from, gd_u64 size)
{
	gd_put_string(to, from, size);
	if (!from)
		to[0] = GD_NULL_MARK;
}

static inline gd_u64 gd_since(struct gd_context *c, gd_u64 tsc)
{
	const struct gd_environment *e = gd_environment(c);

	return (gd_u64)((__int128)(gd_s64)(tsc - e->tsc) * e->mult >> (e->shift & 63));
}

/* Convert a reading of the TSC to ns since the machine started. */
static inline gd_u64 gd_at(struct gd_context *c, gd_u64 tsc)
{
	return gd_environment(c)->ns + gd_since(c, tsc);
}

static inline gd_u64 gd_timestamp(struct gd_context *c)
{
	return gd_at(c, gd_time(c));
}

static inline gd_u64 gd_walltimestamp(struct gd_context *c)
{
	return gd_environment(c)->wall + gd_since(c, gd_time(c));
}

/* The processor time of the thread in ns, read once in a clause. */
static inline gd_u64 gd_vtimestamp(gd_u64 *kept)
{
	if (!*kept)
		*kept = host_thread_time();
	return *kept;
}

#ifdef HOST_IN_PROCESS
/* The working directory, in a buffer of `size` bytes; "" if it was removed or cannot be reached. */
static inline const char *gd_cwd(char *to, gd_u64 size)
{
	if (host_cwd(to, size) < 0)
		gd_put_string(to, "<unknown>", size);
	return to;
}
#endif

/* Whether the clause runs in the client, as the clauses of BEGIN, END and tick do. */
static inline bool gd_in_client(struct gd_context *c)
{
	return c->no_memory && !c->self;
}

static inline const char *gd_execname(struct gd_context *c)
{
	return gd_in_client(c) ? "dtrace" : gd_environment(c)->execname;
}

/* Whether the task belongs to process `pid` or to one of its descendants. */
static inline gd_s32 gd_progenyof(struct gd_context *c, gd_u64 pid)
{
	const gd_u32 *known = gd_environment(c)->ancestors[gd_in_client(c)];
	gd_u32 i;

	if ((gd_u32)pid == c->event->pid)
		return 1;
	for (i = 0; i < GD_ANCESTORS && known[i]; i++)
		if (known[i] == (gd_u32)pid)
			return 1;
	return 0;
}

/* In samples, which the consumer takes of another thread, there are no selectors. */
static inline gd_u64 gd_register(struct gd_context *c, gd_u64 index)
{
	gd_u64 place = index < sizeof gd_register_places ? gd_register_places[index] : GD_TRAPNO, value;

	if (c->event->regs && place < GD_CS)
		return c->event->regs[place];
	if (c->event->regs && !(c->no_memory && c->self) && host_segment(place - GD_CS, &value))
		return value;
	gd_fail(c, GD_FAULT_ILLEGAL, index);
	return 0;
}

/* Whether a store is allowed: it must lie in the scratch memory of this clause. */
static inline bool gd_is_writable(struct gd_context *c, gd_u64 to, gd_u64 size)
{
	gd_u64 at = to - (gd_u64)c->scratch;

	if (!c->scratch || at > c->scratch_used || size > c->scratch_used - at)
		return gd_fail(c, GD_FAULT_ADDRESS, to);
	return true;
}

/* The same for a copy, whose size is wrong if it begins in the scratch memory and ends behind it. */
static inline bool gd_is_copyable(struct gd_context *c, gd_u64 to, gd_u64 size)
{
	gd_u64 at = to - (gd_u64)c->scratch;

	if (size > c->layout->scratch_size || (c->scratch && at < c->scratch_used && size > c->scratch_used - at))
		return gd_fail(c, GD_FAULT_SIZE, size);
	return gd_is_writable(c, to, size);
}

/* bcopy() and copyinto() */
static inline bool gd_copy(struct gd_context *c, gd_u64 to, gd_u64 from, gd_u64 size)
{
	return gd_is_copyable(c, to, size) && gd_load(c, (void *)to, from, size);
}

/* bcopy() of a string: bytes behind its end are zero. */
static inline bool gd_copy_string(struct gd_context *c, gd_u64 to, const char *from, gd_u64 size)
{
	char *out = (char *)to;
	gd_u64 i = 0;

	if (!gd_is_copyable(c, to, size))
		return false;
	for (; i < size && i < c->layout->strsize && from[i]; i++) {
		out[i] = from[i];
		GD_LOOP();
	}
	gd_zero(out + i, size - i);
	return true;
}

/* Store through a pointer. `from` is an address of the D program's own memory. */
static inline bool gd_assign(struct gd_context *c, gd_u64 to, const void *from, gd_u64 size)
{
	if (!gd_is_writable(c, to, size))
		return false;
	gd_bcopy((void *)to, from, size);
	return true;
}

/* Write an address as inet_ntop() does; null if that is a fault. */
static inline const char *gd_inet_ntop(struct gd_context *c, char *to, gd_s64 family, gd_u64 from)
{
	enum { INET = 2, INET6 = 10 };
	gd_u8 address[16];

	if (family != INET && family != INET6) {
		gd_fail(c, GD_FAULT_ILLEGAL, 0);
		return 0;
	}
	if (!gd_load(c, address, from, family == INET ? 4 : sizeof address))
		return 0;
	return family == INET ? gd_inet_ntoa(c, to, address) : gd_inet_ntoa6(c, to, address);
}

/* Write as many bytes as fit in hexadecimal digits, with colons in between. */
static inline const char *gd_colons(struct gd_context *c, char *to, const gd_u8 *bytes, gd_u64 count)
{
	gd_u64 i, at = 0;

	for (i = 0; i < count && at + 4 <= c->layout->strsize; i++) {
		if (i)
			to[at++] = ':';
		to[at++] = "0123456789abcdef"[bytes[i] >> 4];
		to[at++] = "0123456789abcdef"[bytes[i] & 15];
	}
	to[at] = 0;
	return to;
}

/* Write the address of a network card; null if that is a fault. */
static inline const char *gd_link_ntop(struct gd_context *c, char *to, gd_s64 kind, gd_u64 from)
{
	enum { ETHER = 1, INFINIBAND = 32, ETHER_BYTES = 6, INFINIBAND_BYTES = 20 };
	gd_u64 size = kind == ETHER ? ETHER_BYTES : INFINIBAND_BYTES;
	gd_u8 address[INFINIBAND_BYTES];

	if (kind != ETHER && kind != INFINIBAND) {
		gd_fail(c, GD_FAULT_ILLEGAL, 0);
		return 0;
	}
	return gd_load(c, address, from, size) ? gd_colons(c, to, address, size) : 0;
}

static inline gd_s32 gd_is_set(const char *text)
{
	return text != 0;
}

static inline void gd_put_symbol(struct gd_context *c, gd_u64 *to, gd_u64 words, gd_u64 address)
{
	if (words > 1)
		*to++ = gd_whose(c);
	*to = address;
}

#define gd_put_usym gd_put_symbol
#define gd_put_umod gd_put_symbol
#define gd_put_uaddr gd_put_symbol
#define gd_put_sym gd_put_symbol
#define gd_put_mod gd_put_symbol

#endif
