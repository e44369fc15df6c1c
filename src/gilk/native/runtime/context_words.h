/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The registers and flags of an interrupted thread, in the context of its signal frame (sys/ucontext.h), and the form in
 * which a patch saves flags: lahf; seto al.
 *
 * Ownership: a context is that of a signal frame, on the stack of the calling thread, which no one else changes
 * meanwhile.
 */
#ifndef GILK_CONTEXT_WORDS_H
#define GILK_CONTEXT_WORDS_H

#include "runtime.h"

#define GILK_UCONTEXT_REGISTERS 40 /* sys/ucontext.h: gregs */
#define GILK_RSP_INDEX 15
#define GILK_RIP_INDEX 16
#define GILK_FLAGS_INDEX 17

#define GILK_ARITHMETIC 0x8d5UL /* OF, SF, ZF, AF, PF, CF */
#define GILK_BY_LAHF 0xd5UL	/* those without OF */
#define GILK_OVERFLOW 0x800UL

static inline gilk_u64 *gilk_context_word(gilk_u64 context, gilk_u64 index)
{
	return (gilk_u64 *)(context + GILK_UCONTEXT_REGISTERS) + index;
}

/* The hardware's numbers of registers as indices of gregs (sys/ucontext.h). */
static inline gilk_u64 gilk_index_of(unsigned number)
{
	static const gilk_u8 low[8] = {13, 14, 12, 11, 15, 10, 9, 8};

	return number < 8 ? low[number] : number - 8;
}

static inline gilk_u64 gilk_flags_of_image(gilk_u64 flags, gilk_u64 image)
{
	gilk_u64 overflow = image & 0xff ? GILK_OVERFLOW : 0;

	return (flags & ~GILK_ARITHMETIC) | (image >> 8 & GILK_BY_LAHF) | overflow;
}

static inline gilk_u64 gilk_image_of_flags(gilk_u64 flags)
{
	return (flags & GILK_BY_LAHF) << 8 | !!(flags & GILK_OVERFLOW);
}

#endif
