/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Changes of words that belong to one processor. They take a lock prefix where a thread may be moved to another
 * processor in between. Where it cannot be moved (GILK_HOST_ONE_PROCESSOR: the kernel with interrupts off, or a test
 * with one thread), a single instruction without the prefix is enough against interrupts, signals and NMIs, and costs
 * less.
 */
#ifndef GILK_HOST_OWN_H
#define GILK_HOST_OWN_H

#include "../abi/gilk_atomic.h"

#ifdef GILK_HOST_ONE_PROCESSOR

/* cmpxchg without the lock prefix, on a word of 32 or 64 bits; 1 if the word equalled `from`. */
#define HOST_CMPXCHG(word, from, to)                                              \
	({                                                                        \
		int done;                                                         \
		__asm__ volatile("cmpxchg %[new], %[old]"                         \
				 : "=@ccz"(done), [old] "+m"(*(word)), "+a"(from) \
				 : [new] "r"(to)                                  \
				 : "memory");                                     \
		done;                                                             \
	})

static inline int host_swap_own(gilk_u64 *word, gilk_u64 from, gilk_u64 to)
{
	return HOST_CMPXCHG(word, from, to);
}

static inline int host_swap32_own(gilk_u32 *word, gilk_u32 from, gilk_u32 to)
{
	return HOST_CMPXCHG(word, from, to);
}

static inline void host_add_own(gilk_u64 *word, gilk_u64 value)
{
	__asm__ volatile("addq %[value], %[word]" : [word] "+m"(*word) : [value] "er"(value) : "memory", "cc");
}

#else

static inline int host_swap_own(gilk_u64 *word, gilk_u64 from, gilk_u64 to)
{
	return gilk_swap(word, from, to);
}

static inline int host_swap32_own(gilk_u32 *word, gilk_u32 from, gilk_u32 to)
{
	return gilk_swap32(word, from, to);
}

static inline void host_add_own(gilk_u64 *word, gilk_u64 value)
{
	gilk_add(word, value);
}

#endif

#endif
