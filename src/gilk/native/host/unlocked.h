/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Changes of words that only one processor changes, by a thread that is not moved meanwhile: an instruction without the
 * lock prefix is not divided by interrupts, signals or NMIs, and costs a tenth.
 */
#ifndef GILK_HOST_UNLOCKED_H
#define GILK_HOST_UNLOCKED_H

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

#endif
