/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Access to the running thread's block by offset (struct gilk_block and the memory behind it), and the clock: the
 * primitives that write records. Users' instruments are compiled with this header, so all names begin with gilk_.
 *
 * Each access is one instruction, so that no signal handler of the thread can run in the middle of it. In a process the
 * GS base is the address of the block; test programs get these functions from test.h.
 */
#ifndef GILK_BLOCK_H
#define GILK_BLOCK_H

#include "../abi/gilk_abi.h"

#ifdef GILK_HOST_TEST
#include "test.h"
#else

/* Whether free room in a buffer may be taken: always, except in tests that refuse it. */
static inline int gilk_has_room(void)
{
	return 1;
}

static inline gilk_u64 gilk_block_load(gilk_u64 offset)
{
	gilk_u64 value;

	__asm__ volatile("movq %%gs:(%1), %0" : "=r"(value) : "r"(offset) : "memory");
	return value;
}

/* Read a word that only this thread changes: the compiler may drop an unused read, and may merge two reads. */
static inline gilk_u64 gilk_block_look(gilk_u64 offset)
{
	gilk_u64 value;

	__asm__("movq %%gs:(%1), %0" : "=r"(value) : "r"(offset));
	return value;
}

static inline void gilk_block_store(gilk_u64 offset, gilk_u64 value)
{
	__asm__ volatile("movq %0, %%gs:(%1)" : : "r"(value), "r"(offset) : "memory");
}

static inline void gilk_block_store32(gilk_u64 offset, gilk_u32 value)
{
	__asm__ volatile("movl %0, %%gs:(%1)" : : "r"(value), "r"(offset) : "memory");
}

static inline void gilk_block_store8(gilk_u64 offset, gilk_u8 value)
{
	__asm__ volatile("movb %0, %%gs:(%1)" : : "q"(value), "r"(offset) : "memory");
}

static inline void gilk_block_increment(gilk_u64 offset)
{
	__asm__ volatile("incq %%gs:(%0)" : : "r"(offset) : "memory", "cc");
}

static inline void gilk_block_decrement(gilk_u64 offset)
{
	__asm__ volatile("decq %%gs:(%0)" : : "r"(offset) : "memory", "cc");
}

/*
 * Compare and exchange: store `to` if the word equals *seen, else load the word into *seen. Returns 1 if it was stored.
 */
static inline int gilk_block_swap(gilk_u64 offset, gilk_u64 *seen, gilk_u64 to)
{
	unsigned char ok;

	__asm__ volatile("cmpxchgq %2, %%gs:(%3)\n\tsete %1"
			 : "+a"(*seen), "=q"(ok)
			 : "r"(to), "r"(offset)
			 : "memory", "cc");
	return ok;
}

/* Time stamp counter; gilk turns it into nanoseconds when it stores samples. */
static inline gilk_u64 gilk_time(void)
{
	gilk_u32 low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (gilk_u64)high << 32 | low;
}

#endif

#endif
