/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Find a block for a thread at its first hit.
 *
 * This runs on the thread's own stack at any instruction of the program, so it takes no lock and allocates nothing. A
 * signal handler may interrupt it and claim a block for the same thread; then the outer claim wins, and the inner block
 * is drained and retired like any other. The same holds for blocks in the memory of clients (abi/gilk_abi.h, parts).
 */
#include "runtime.h"

_Static_assert(__builtin_offsetof(struct gilk_block, holder) == 264, "targets/given_blocks.py");
_Static_assert(__builtin_offsetof(struct gilk_control, next) == 80, "targets/given_blocks.py");

/*
 * A forked child has its parent's fs base; the key distinguishes the two. gilk writes it for the process itself
 * (targets/given_blocks.py), so that no thread has to ask for the process's number.
 */
static gilk_u64 process_key(void)
{
	gilk_u64 key = gilk_key;

	if (!key) {
		key = (host_pid() + 1UL) * 0x9e3779b97f4a7c15UL | 1;
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

_Static_assert(__builtin_offsetof(struct gilk_control, alone) == 116, "targets/left_alone.py");

/*
 * Take the block of a thread of this process that has ended. Nobody reads what it has written. The number of a thread
 * that has ended may be that of a new one at any time, which may have claimed this block; `birth` tells.
 */
static int take_over(struct gilk_block *block, gilk_u32 pid)
{
	gilk_u64 birth = __atomic_load_n(&block->birth, __ATOMIC_RELAXED);
	gilk_u32 used = 1;

	if (__atomic_load_n(&block->state, __ATOMIC_RELAXED) != 1 || block->pid != known_pid(pid) ||
	    !block->tid || !host_is_gone(pid, block->tid))
		return 0;
	if (!__atomic_compare_exchange_n(&block->state, &used, 2, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return 0;
	if (__atomic_load_n(&block->birth, __ATOMIC_RELAXED) != birth) {
		__atomic_store_n(&block->state, 1, __ATOMIC_RELEASE);
		return 0;
	}
	block->owner = block->busy = block->inside = 0;
	return 1;
}

/* When all were in use, look again a few times a second: no client frees those of threads that have ended. */
static struct gilk_block *find_left(struct gilk_control *control)
{
	gilk_u32 before = __atomic_load_n(&control->alone, __ATOMIC_RELAXED), now = (gilk_u32)(host_clock() >> 28) | 1;
	gilk_u32 index, pid;

	if (!before || (before == now && __atomic_load_n(&control->exhausted, __ATOMIC_RELAXED)))
		return 0;
	__atomic_store_n(&control->alone, now, __ATOMIC_RELAXED);
	pid = host_pid();
	for (index = 0; index < control->blocks; index++)
		if (take_over(block_at(control, index), pid)) {
			__atomic_store_n(&control->exhausted, 0, __ATOMIC_RELAXED);
			return block_at(control, index);
		}
	return 0;
}

static struct gilk_block *find(struct gilk_control *control)
{
	struct gilk_block *left;
	gilk_u32 index;

	if (!host_has_room())
		return 0;
	if (__atomic_load_n(&control->exhausted, __ATOMIC_RELAXED))
		return find_left(control);
	for (index = 0; index < control->blocks; index++) {
		struct gilk_block *block = block_at(control, index);

		if (take(block)) {
			block->index = index;
			raise_next(control, index + 1);
			return block;
		}
	}
	left = find_left(control);
	if (!left)
		__atomic_store_n(&control->exhausted, 1, __ATOMIC_RELAXED);
	return left;
}

static void give_side_stack(struct gilk_block *block)
{
	gilk_u64 first = gilk_params.side + GILK_CLAIM_STACKS * GILK_CLAIM_STACK;

	if (!gilk_params.side || block->side_top)
		return;
	block->side_rsp = 0;
	block->side_top = first + (block->index + 1UL) * GILK_SIDE_STACK;
}

static void give_advice_stack(struct gilk_block *block)
{
	struct gilk_advising *state = &block->advising;

	if (!gilk_params.advice || state->high)
		return;
	state->newest = state->running = state->left = 0;
	state->shown = ~0UL;
	state->high = gilk_params.advice + (block->index + 1UL) * GILK_ADVICE_STACK;
	state->next = state->high - GILK_ADVICE_OWN;
	*(gilk_u64 *)(state->high - GILK_COPY_COUNT) = 0; /* of a thread that had this block before */
}

/* A child that advice has forked gets no block while it is within the advice: its way out uses the parent's. */
static int is_in_advice(const struct gilk_control *control)
{
	gilk_u64 at = (gilk_u64)__builtin_frame_address(0) - gilk_params.advice;

	return gilk_params.advice && at < control->blocks * GILK_ADVICE_STACK;
}

static void name(struct gilk_block *block, gilk_u32 pid, gilk_u32 tid)
{
	block->pid = pid;
	block->tid = tid;
	block->birth = host_clock();
}

static int holds(struct gilk_control *control, gilk_u64 address)
{
	return address - (gilk_u64)block_at(control, 0) < control->blocks * control->stride;
}

static int is_of(const struct gilk_block *block, const struct gilk_block *own, gilk_u64 owner)
{
	return block->owner == owner && block->tid == own->tid && block->pid == own->pid;
}

/* The thread's block in a client's memory: that at `before` if the thread still owns it, or else a new one. */
static struct gilk_block *block_in(struct gilk_control *client, gilk_u64 before,
				   const struct gilk_block *own, gilk_u64 owner)
{
	struct gilk_block *block = (struct gilk_block *)before;

	if (holds(client, before) && is_of(block, own, owner))
		return block;
	block = find(client);
	if (!block) {
		__atomic_fetch_add(&client->lost, 1, __ATOMIC_RELAXED);
		return block_at(client, client->blocks);
	}
	name(block, own->pid, own->tid);
	block->owner = owner;
	return block;
}

static void give_parts(struct gilk_control *control, struct gilk_block *own, gilk_u64 owner)
{
	gilk_u64 *part = gilk_part(own);
	gilk_u32 n;

	for (n = 1; n < GILK_PARTS; n++) {
		gilk_u64 client = __atomic_load_n(&gilk_part(control)[n], __ATOMIC_ACQUIRE);
		gilk_u64 at = (gilk_u64)own, before = at + part[n];

		if (client)
			part[n] = (gilk_u64)block_in((struct gilk_control *)client, before, own, owner) - at;
	}
}

/*
 * Whoever adds or removes clients raises the generation before it clears owners, so that one of us sees the other's
 * change.
 */
static void make_owned(struct gilk_control *control, struct gilk_block *own, gilk_u64 owner)
{
	gilk_u64 generation;

	__atomic_fetch_add(&control->claiming, 1, __ATOMIC_SEQ_CST);
	do {
		generation = __atomic_load_n(&control->generation, __ATOMIC_ACQUIRE);
		give_parts(control, own, owner);
		own->holder = owner;
		__atomic_exchange_n(&own->owner, owner, __ATOMIC_SEQ_CST);
	} while (__atomic_load_n(&control->generation, __ATOMIC_SEQ_CST) != generation);
	__atomic_fetch_sub(&control->claiming, 1, __ATOMIC_SEQ_CST);
}

/*
 * Whether the block is this thread's, but has no owner: gilk has given it to the thread while that stood still, or has
 * cleared its owner so that the thread looks up its parts again. This makes no system call, which a filter that the
 * program has installed meanwhile (seccomp) might answer by killing it.
 */
static int is_cleared(const struct gilk_block *block, gilk_u64 owner)
{
	if ((const void *)block == (const void *)gilk_params.control || block->state != 1)
		return 0;
	return !block->owner && block->holder == owner;
}

/* A block for a thread that has none; null, and the hit is counted as lost, if all are in use. */
static struct gilk_block *fresh(struct gilk_control *control)
{
	struct gilk_block *block;

	if (is_in_advice(control))
		return 0;
	block = find(control);
	if (!block) {
		__atomic_fetch_add(&control->lost, 1, __ATOMIC_RELAXED);
		return block;
	}
	name(block, known_pid(host_pid()), host_tid());
	block->side_top = 0;
	block->advising.high = 0;
	__atomic_store_n(&block->state, 1, __ATOMIC_RELEASE); /* of one that was taken over, its name before that */
	return block;
}

/* Returns 1 if the thread now has a block; 0 if there is none, and then counts the hit as lost. */
gilk_u32 gilk_claim(void)
{
	struct gilk_control *control = gilk_params.control;
	struct gilk_block *block = host_block();
	gilk_u64 owner = host_self() + process_key();

	if (host_owner() == owner) {
		give_side_stack(block); /* the block was claimed from another arena, or before there were side stacks */
		give_advice_stack(block);
		return 1;
	}
	if (!is_cleared(block, owner))
		block = fresh(control);
	if (!block)
		return 0;
	if (!block->birth)
		block->birth = host_clock();
	give_side_stack(block);
	give_advice_stack(block);
	make_owned(control, block, owner);
	host_attach(block);
	return 1;
}
