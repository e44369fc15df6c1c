/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Changes of words that others change too: each is one instruction, locked. */
#ifndef GILK_ATOMIC_H
#define GILK_ATOMIC_H

#include "gilk_abi.h"

/* Make it `to` if it is `from`; 1 if it was. */
static inline _Bool gilk_swap(gilk_u64 *word, gilk_u64 from, gilk_u64 to)
{
	return __atomic_compare_exchange_n(word, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE);
}

/* The same of a smaller one. */
static inline _Bool gilk_swap32(gilk_u32 *word, gilk_u32 from, gilk_u32 to)
{
	return __atomic_compare_exchange_n(word, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE);
}

/* Add to it. */
static inline void gilk_add(gilk_u64 *word, gilk_u64 value)
{
	__atomic_fetch_add(word, value, __ATOMIC_RELAXED);
}

#endif
