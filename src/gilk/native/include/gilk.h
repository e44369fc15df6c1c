/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Everything that an instrument may use. Write `#include <gilk.h>`, and define one of
 *
 *     void name(unsigned int iid);
 *     void name(const struct gilk_regs *regs);
 *     void name(const struct gilk_regs *regs, unsigned int iid);
 *
 * The first form is the cheapest: only live registers are saved around it. An instrument is compiled freestanding, for
 * general registers only. It may use functions and variables of the target and of its libraries. One that calls such a
 * function costs a save of the whole vector state at each hit; if that function hits the instrument again, the hit is
 * only counted, as nested.
 */
#ifndef GILK_H
#define GILK_H

#include "../abi/gilk_abi.h"
#include "../host/block.h"

#define GILK_RING(class, field) (64 + 32 * (class) + (field))
#define GILK_WPOS 0
#define GILK_LIMIT 8
#define GILK_DROPS 16

extern __attribute__((visibility("hidden"))) struct gilk_control *const gilk_control;

/* Reserve `size` bytes in a client's ring of this class: the offset from the thread's block; 0 if the ring is full. */
static inline gilk_u64 gilk_reserve_in(const struct gilk_control *control, int class, gilk_u64 size)
{
	const struct gilk_ring_class *ring = &control->ring[class];
	gilk_u64 part = gilk_block_load(GILK_PARTS_AT + 8UL * control->self);
	gilk_u64 at = gilk_block_load(part + GILK_RING(class, GILK_WPOS));

	do {
		if (!ring->size || at + size > gilk_block_load(part + GILK_RING(class, GILK_LIMIT)) || !gilk_has_room()) {
			gilk_block_increment(part + GILK_RING(class, GILK_DROPS));
			return 0;
		}
	} while (!gilk_block_swap(part + GILK_RING(class, GILK_WPOS), &at, at + size));
	return part + ring->offset + (at & (ring->size - 1));
}

static inline gilk_u64 gilk_reserve(int class, gilk_u64 size)
{
	return gilk_reserve_in(gilk_control, class, size);
}

static inline void gilk_commit(gilk_u64 at, gilk_u32 iid)
{
	gilk_block_store(at, gilk_time());
	gilk_block_store32(at + 12, (gilk_u32)(gilk_u64)__builtin_frame_address(0));
	gilk_block_store32(at + 8, iid);
}

/* Record an integer and the time. */
static inline void ilk_log_integer_sample(gilk_u64 value, gilk_u32 iid)
{
	gilk_u64 at = gilk_reserve(1, sizeof(struct gilk_record_integer));

	if (!at)
		return;
	gilk_block_store(at + 16, value);
	gilk_commit(at, iid);
}

/* Record two integers and the time. */
static inline void ilk_log_pair_sample(gilk_u64 value, gilk_u64 extra, gilk_u32 iid)
{
	gilk_u64 at = gilk_reserve(1, sizeof(struct gilk_record_integer));

	if (!at)
		return;
	gilk_block_store(at + 16, value);
	gilk_block_store(at + 24, extra);
	gilk_commit(at, iid);
}

/* Record a text up to its NUL, at most 232 bytes of it. The pointer must be readable. */
static inline void ilk_log_string_sample(const char *text, gilk_u32 iid)
{
	gilk_u64 at = gilk_reserve(3, sizeof(struct gilk_record_regs));
	gilk_u32 n;

	if (!at)
		return;
	for (n = 0; n < 232 && text[n]; n++)
		gilk_block_store8(at + 24 + n, (gilk_u8)text[n]);
	gilk_block_store32(at + 16, n);
	gilk_commit(at, iid);
}

static inline void gilk_log_registers_in(const struct gilk_control *control, const struct gilk_regs *regs, gilk_u32 iid)
{
	const gilk_u64 *from = (const gilk_u64 *)regs;
	gilk_u64 at = gilk_reserve_in(control, 3, sizeof(struct gilk_record_regs));
	int n;

	if (!at)
		return;
	for (n = 0; n < 18; n++)
		gilk_block_store(at + 24 + 8 * n, from[n]);
	gilk_block_store32(at + 16, 0);
	gilk_commit(at, iid);
}

/* Record all registers. */
static inline void ilk_log_registers_sample(const struct gilk_regs *regs, gilk_u32 iid)
{
	gilk_log_registers_in(gilk_control, regs, iid);
}

#endif
