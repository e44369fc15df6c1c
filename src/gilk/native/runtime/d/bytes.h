/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Copies and fills bytes without libc, and without string instructions, which would
 * depend on the program's direction flag.
 *
 * Ownership: all memory is the caller's.
 */
#ifndef GILK_D_BYTES_H
#define GILK_D_BYTES_H

#include "base.h"

typedef gd_u64 __attribute__((__may_alias__, __aligned__(1))) gd_word;

/* Copy forwards: the areas may overlap if `from` lies above `to`. */
static inline void gd_bcopy(void *to, const void *from, gd_u64 size)
{
	gd_u8 *out = to;
	const gd_u8 *in = from;
	gd_u64 i = 0;

	for (; i + 8 <= size; i += 8) {
		*(gd_word *)(out + i) = *(const gd_word *)(in + i);
		GD_LOOP();
	}
	for (; i < size; i++) {
		out[i] = in[i];
		GD_LOOP();
	}
}

static inline void gd_zero(void *to, gd_u64 size)
{
	gd_u8 *out = to;
	gd_u64 i = 0;

	for (; i + 8 <= size; i += 8) {
		*(gd_word *)(out + i) = 0;
		GD_LOOP();
	}
	if (i && i < size) { /* store the last word at once, though a part of it is zero already */
		*(gd_word *)(out + size - 8) = 0;
		return;
	}
	for (; i < size; i++) {
		out[i] = 0;
		GD_LOOP();
	}
}

static inline bool gd_same(const void *a, const void *b, gd_u64 size)
{
	const gd_u8 *left = a, *right = b;
	gd_u64 i = 0;

	for (; i + 8 <= size; i += 8)
		if (*(const gd_word *)(left + i) != *(const gd_word *)(right + i))
			return false;
	for (; i < size; i++)
		if (left[i] != right[i])
			return false;
	return true;
}

static inline gd_u64 gd_mix(gd_u64 hash, gd_u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15UL;
	return hash ^ hash >> 32;
}

static inline gd_u64 gd_hash(gd_u64 seed, const void *key, gd_u64 size)
{
	const gd_u8 *in = key;
	gd_u64 hash = gd_mix(size, seed), i = 0, rest = 0;

	for (; i + 8 <= size; i += 8)
		hash = gd_mix(hash, *(const gd_word *)(in + i));
	for (; i < size; i++)
		rest = rest << 8 | in[i];
	if (size & 7)
		hash = gd_mix(hash, rest);
	return gd_mix(hash, hash << 32);
}

static inline gd_u64 gd_round8(gd_u64 size)
{
	return (size + 7) & -8UL;
}

#endif
