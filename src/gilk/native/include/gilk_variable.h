/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Accesses of memory, for the C code of woven aspects (lang/aspect/code/accessing.py). A patch has replaced the memory
 * operand of an instruction by a place on the stack (abi/gilk_access.h): the instruction reads from there and writes
 * there.
 *
 * An access may touch a part of the variable, or reach beyond it. If the value that advice sees has the variable's
 * size, it is the whole variable, with the accessed bytes in their place. Otherwise it is the accessed part of the
 * variable, as far as it fits. For memory that is known by its address only, the value is the accessed bytes, up to
 * eight.
 */
#ifndef GILK_VARIABLE_H
#define GILK_VARIABLE_H

#include "gilk_aspect.h"
#include "../abi/gilk_access.h"

struct gilk_variable {
	gilk_u64 start, size;
	int whole; /* the value is the whole variable */
};

#define GILK_NEWEST 216 /* struct gilk_block: advising.newest */

/* The site of the access whose advice this thread runs; host/access.S has stored it. */
static inline const struct gilk_access_site *gilk_own_site(void)
{
	return (const struct gilk_access_site *)gilk_block_load(GILK_RUNNING);
}

static inline gilk_u64 gilk_own_pc(void)
{
	const struct gilk_access_site *site = gilk_own_site();

	if (site->phase == GILK_ACCESS_TRAPPED)
		return ((const struct gilk_access *)(gilk_block_load(GILK_LEFT) - GILK_ACCESS_FRAME))->size;
	return (gilk_u64)(&site->pc + 1) + (gilk_u64)(long)site->pc;
}

/* The innermost call that has a frame, or 0. */
static inline const struct gilk_activation_head *gilk_newest_call(void)
{
	const struct gilk_activation_head *one = (const struct gilk_activation_head *)gilk_block_load(GILK_NEWEST);

	while (one && !one->frame)
		one = one->previous;
	return one;
}

/* Copy `size` bytes, by one instruction if that is possible. */
static inline void gilk_move(void *to, const void *from, gilk_u64 size)
{
	switch (size) {
	case 1:
		*(volatile gilk_u8 *)to = *(const volatile gilk_u8 *)from;
		return;
	case 2:
		*(volatile unsigned short *)to = *(const volatile unsigned short *)from;
		return;
	case 4:
		*(volatile gilk_u32 *)to = *(const volatile gilk_u32 *)from;
		return;
	case 8:
		*(volatile gilk_u64 *)to = *(const volatile gilk_u64 *)from;
		return;
	}
	gilk_copy(to, from, size);
}

/* How many bytes the instruction accesses. */
static inline gilk_u64 gilk_access_size(const struct gilk_access *access, const struct gilk_access_site *site)
{
	return site->size ? site->size : access->size;
}

static inline void gilk_access_load(struct gilk_access *access, const struct gilk_access_site *site)
{
	gilk_move(access->bytes, (const void *)access->address, site->size);
}

static inline void gilk_access_store(const struct gilk_access *access, const struct gilk_access_site *site)
{
	gilk_move((void *)access->address, access->bytes, site->size);
}

static inline int gilk_access_reaches(const struct gilk_access *access, const struct gilk_access_site *site,
				      const struct gilk_variable *variable)
{
	return access->address < variable->start + variable->size && access->address + site->size > variable->start;
}

static inline long gilk_access_offset(const struct gilk_access *access, const struct gilk_variable *variable)
{
	return (long)(access->address - variable->start);
}

/*
 * The part of the variable that the access touches: from `*first` in the access and `*at` in the value on. Returns its
 * size.
 */
static inline gilk_u64 gilk_access_part(const struct gilk_access *access, const struct gilk_access_site *site,
					const struct gilk_variable *variable, gilk_u64 room, gilk_u64 *first, gilk_u64 *at)
{
	gilk_u64 start = access->address, end = start + site->size, last = variable->start + variable->size, count;

	*first = start < variable->start ? variable->start - start : 0;
	*at = variable->whole ? start + *first - variable->start : 0;
	count = (end < last ? end : last) - (start + *first);
	return count < room - *at ? count : room - *at;
}

/* Build the value, with `bytes` in place of the accessed bytes. `room`: bytes of the value. */
static inline void gilk_access_value(const struct gilk_access *access, const struct gilk_access_site *site,
				     const struct gilk_variable *variable, const gilk_u8 *bytes, void *value, gilk_u64 room)
{
	gilk_u64 first, at, count, n;

	if (variable->whole && access->address == variable->start && site->size == room) {
		gilk_move(value, bytes, room);
		return;
	}
	if (variable->whole)
		gilk_move(value, (const void *)variable->start, room);
	else
		for (n = 0; n < room; n++)
			((volatile gilk_u8 *)value)[n] = 0;
	count = gilk_access_part(access, site, variable, room, &first, &at);
	gilk_copy((gilk_u8 *)value + at, bytes + first, count);
}

/* Store the value into the bytes of the access that belong to the variable. */
static inline void gilk_access_put(struct gilk_access *access, const struct gilk_access_site *site,
				   const struct gilk_variable *variable, const void *value, gilk_u64 room)
{
	gilk_u64 first, at, count = gilk_access_part(access, site, variable, room, &first, &at);

	gilk_copy(access->bytes + first, (const gilk_u8 *)value + at, count);
}

/* The first bytes of an access as a number, zero-extended. The bytes of a string instruction are not known. */
static inline gilk_u64 gilk_access_raw(const struct gilk_access_site *site, const gilk_u8 *bytes)
{
	gilk_u64 value = 0;

	gilk_move(&value, bytes, site->size < sizeof value ? site->size : sizeof value);
	return value;
}

static inline void gilk_access_put_raw(struct gilk_access *access, const struct gilk_access_site *site, gilk_u64 value)
{
	gilk_move(access->bytes, &value, site->size < sizeof value ? site->size : sizeof value);
}

/* Skip the instruction: the patch continues behind it. The word before struct gilk_access has the address. */
static inline void gilk_access_skip(struct gilk_access *access, const struct gilk_access_site *site)
{
	((volatile gilk_u64 *)access)[-1] = (gilk_u64)(&site->skipped + 1) + (gilk_u64)(long)site->skipped;
}

#endif
