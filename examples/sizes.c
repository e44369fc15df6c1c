/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A histogram of the first argument, made in the target: a thousand calls are
 * one sample. Here it is of the sizes that malloc is asked for:
 *
 *	gilk run -i 'libc:malloc:entry=sizes.c:sizes' -o sizes.parquet -- python3 -c 'import json'
 *	gilk query sizes.parquet 'select value as log2_of_size, max(extra) as calls from samples group by 1 order by 1'
 *
 * An instrument may keep variables. All threads share them, hence the atomic
 * additions; and it may take the registers, as they are before the instruction
 * at the point. rdi holds the first argument of a function that is entered.
 */
#include <gilk.h>

static gilk_u64 calls[64];
static gilk_u64 all;

void sizes(const struct gilk_regs *regs, unsigned int iid)
{
	int bucket = regs->rdi ? 63 - __builtin_clzll(regs->rdi) : 0;

	__atomic_fetch_add(&calls[bucket], 1, __ATOMIC_RELAXED);
	if (__atomic_add_fetch(&all, 1, __ATOMIC_RELAXED) % 1000)
		return;
	for (bucket = 0; bucket < 64; bucket++)
		if (calls[bucket])
			ilk_log_pair_sample(bucket, calls[bucket], iid);
}
