/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The first hit of a thread: find it a block.
 *
 * Runs on the thread's own stack at any instruction of the program, so it
 * takes no lock and allocates nothing. A signal may come in between and claim
 * for the same thread; then the outer claim wins and the inner block, whatever
 * it holds, is drained and retired like any other.
 */
#include "runtime.h"

/* A child has its parent's fs base; the key sets the two apart. */
static gilk_u64 process_key(gilk_u32 pid)
{
	gilk_u64 key = gilk_key;

	if (!key) {
		key = (pid + 1UL) * 0x9e3779b97f4a7c15UL | 1;
		gilk_key = key;
	}
	return key;
}

static struct gilk_block *block_at(struct gilk_control *control, gilk_u32 index)
{
	return (struct gilk_block *)((char *)control + control->first + index * control->stride);
}

static void raise_next(struct gilk_control *control, gilk_u64 next)
{
	gilk_u64 seen = __atomic_load_n(&control->next, __ATOMIC_RELAXED);

	while (seen < next && !__atomic_compare_exchange_n(&control->next, &seen, next, 1,
							    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static int take(struct gilk_block *block)
{
	gilk_u32 free = 0;

	if (__atomic_load_n(&block->state, __ATOMIC_RELAXED))
		return 0;
	return __atomic_compare_exchange_n(&block->state, &free, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static struct gilk_block *find(struct gilk_control *control)
{
	gilk_u32 index;

	if (__atomic_load_n(&control->exhausted, __ATOMIC_RELAXED) || !host_has_room())
		return 0;
	for (index = 0; index < control->blocks; index++) {
		struct gilk_block *block = block_at(control, index);

		if (take(block)) {
			block->index = index;
			raise_next(control, index + 1);
			return block;
		}
	}
	__atomic_store_n(&control->exhausted, 1, __ATOMIC_RELAXED);
	return 0;
}

static void give_side_stack(struct gilk_block *block)
{
	gilk_u64 first = gilk_params.side + GILK_CLAIM_STACKS * GILK_CLAIM_STACK;

	if (!gilk_params.side || block->side_top)
		return;
	block->side_rsp = 0;
	block->side_top = first + (block->index + 1UL) * GILK_SIDE_STACK;
}

/* 1 when the thread now has a block; 0 when there is none, and the hit is counted as lost. */
gilk_u32 gilk_claim(void)
{
	struct gilk_control *control = gilk_params.control;
	gilk_u32 pid = host_pid();
	gilk_u64 key = process_key(pid);
	struct gilk_block *block;

	if (host_owner() == host_self() + key) {
		give_side_stack(host_block()); /* claimed from another arena, or before there were any */
		return 1;
	}
	block = find(control);
	if (!block) {
		__atomic_fetch_add(&control->lost, 1, __ATOMIC_RELAXED);
		return 0;
	}
	block->pid = known_pid(pid);
	block->tid = host_tid();
	block->birth = host_clock();
	block->side_top = 0;
	give_side_stack(block);
	__atomic_store_n(&block->owner, host_self() + key, __ATOMIC_RELEASE);
	host_attach(block);
	return 1;
}
