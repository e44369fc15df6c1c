/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The calls that a call lies in (gilk_aspect.h includes this). A function that control flows name has a frame, which
 * its activation leads to (runtime/advice.h) while the function itself runs. The engine drops activations of calls that
 * were left otherwise before any advice runs, so all that are there are of calls under way: advice owns none of them.
 */
#ifndef GILK_CALLS_H
#define GILK_CALLS_H

#define GILK_RUNNING 224 /* struct gilk_block: advising.running */
#define GILK_HIGH 240 /* advising.high */

struct gilk_frame {
	gilk_u64 number;       /* of the function, in its file */
	const void *arguments; /* struct gilk_arguments_NUMBER: those that it runs with */
};

struct gilk_about { /* struct gilk_advice */
	gilk_u64 others[3];
	gilk_u64 number;
	const char *function, *image;
};

struct gilk_activation_head { /* struct gilk_activation */
	const struct gilk_activation_head *previous;
	const gilk_u64 *rsp; /* there lies the return address */
	const struct gilk_about *about; /* the function: C of one signature serves several */
	gilk_u64 others[25];
	const struct gilk_frame *frame;
};

static inline struct gilk_activation_head *gilk_own_call(void)
{
	return ((struct gilk_activation_head **)gilk_block_load(GILK_HIGH))[-1]; /* not of the block: advice may fork */
}

/* The innermost call around this one that has a frame, or 0. */
static inline const struct gilk_activation_head *gilk_call_around(const struct gilk_activation_head *one)
{
	do
		one = one->previous;
	while (one && !one->frame);
	return one;
}

/*
 * Whether an address is in the set of ranges that begins `set` bytes behind gilk_private: a count, then starts and
 * ends.
 */
static inline int gilk_is_among(gilk_u64 set, gilk_u64 address)
{
	const gilk_u64 *word = (const gilk_u64 *)((const char *)&gilk_private + set);
	gilk_u64 n;

	for (n = 0; n < word[0]; n++)
		if (address >= word[1 + 2 * n] && address < word[2 + 2 * n])
			return 1;
	return 0;
}

#endif
