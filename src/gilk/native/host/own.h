/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Changes of words that are a processor's own. Where a thread may be moved to another one meanwhile they are locked.
 * Where it may not (GILK_HOST_ONE_PROCESSOR: the kernel, with interrupts off; a test of one thread) it is enough that
 * no interrupt, signal or NMI divides an instruction, which costs less without the lock prefix.
 */
#ifndef GILK_HOST_OWN_H
#define GILK_HOST_OWN_H

#include "../abi/gilk_atomic.h"

#ifdef GILK_HOST_ONE_PROCESSOR

/* cmpxchg without the lock prefix, on a word of either size; 1 if the word was `from`. */
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
