/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Changes of words that are a processor's own. Where a thread may be moved to another one meanwhile they are locked.
 * Where it may not (GILK_HOST_ONE_PROCESSOR: the kernel, with interrupts off; a test of one thread) it is enough that
 * no interrupt, signal or NMI divides an instruction, which costs less without the lock prefix.
 */
#ifndef GILK_HOST_OWN_H
#define GILK_HOST_OWN_H

#ifdef GILK_HOST_ONE_PROCESSOR

static inline int host_swap_own(gilk_u64 *word, gilk_u64 from, gilk_u64 to)
{
	int done;

	__asm__ volatile("cmpxchgq %[to], %[word]"
			 : "=@ccz"(done), [word] "+m"(*word), "+a"(from)
			 : [to] "r"(to)
			 : "memory");
	return done;
}

static inline int host_swap32_own(gilk_u32 *word, gilk_u32 from, gilk_u32 to)
{
	int done;

	__asm__ volatile("cmpxchgl %[to], %[word]"
			 : "=@ccz"(done), [word] "+m"(*word), "+a"(from)
			 : [to] "r"(to)
			 : "memory");
	return done;
}

static inline void host_add_own(gilk_u64 *word, gilk_u64 value)
{
	__asm__ volatile("addq %[value], %[word]" : [word] "+m"(*word) : [value] "er"(value) : "memory", "cc");
}

#else

static inline int host_swap_own(gilk_u64 *word, gilk_u64 from, gilk_u64 to)
{
	return __atomic_compare_exchange_n(word, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE);
}

static inline int host_swap32_own(gilk_u32 *word, gilk_u32 from, gilk_u32 to)
{
	return __atomic_compare_exchange_n(word, &from, to, 0, __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE);
}

static inline void host_add_own(gilk_u64 *word, gilk_u64 value)
{
	__atomic_fetch_add(word, value, __ATOMIC_RELAXED);
}

#endif

#endif
