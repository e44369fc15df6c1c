/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The calls around a call (gilk_aspect.h includes this). A function that a control flow names has a frame, to which its
 * activation (runtime/advice.h) points while the function runs. When a call is left by longjmp() or an exception, the
 * engine takes its frame away. Advice owns no activation.
 */
#ifndef GILK_CALLS_H
#define GILK_CALLS_H

#define GILK_RUNNING 224 /* struct gilk_block: advising.running */
#define GILK_LEFT 232 /* advising.left: the stack pointer of the program, where advice on an access runs */
#define GILK_HIGH 240 /* advising.high */

struct gilk_frame {
	gilk_u64 number;       /* the function's number in its file */
	const void *arguments; /* struct gilk_arguments_NUMBER: its arguments */
};

struct gilk_about { /* struct gilk_advice */
	gilk_u64 others[3];
	gilk_u64 number;
	const char *function, *image;
	const void *address;
};

struct gilk_activation_head { /* struct gilk_activation */
	const struct gilk_activation_head *previous;
	const gilk_u64 *rsp; /* points at the return address */
	const struct gilk_about *about; /* the function: functions of one signature share the C */
	gilk_u64 others[25];
	const struct gilk_frame *frame;
	gilk_u64 caller; /* the return address; 0: the call was left by a jump */
};

#define GILK_KEPT 4 /* in `others` */

static inline struct gilk_activation_head *gilk_own_call(void)
{
	return ((struct gilk_activation_head **)gilk_block_load(GILK_HIGH))[-1]; /* not that in the block: advice may fork */
}

/* In advice that never calls the function: have the call go on behind the advice. */
static inline void gilk_go_on(void)
{
	gilk_own_call()->others[GILK_KEPT] = 1;
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
 * ends, in order of address; none meets another.
 */
static inline int gilk_is_among(gilk_u64 set, gilk_u64 address)
{
	const gilk_u64 *word = (const gilk_u64 *)((const char *)&gilk_private + set);
	gilk_u64 low = 0, high = word[0];

	while (low < high) {
		gilk_u64 middle = (low + high) / 2;

		if (address < word[1 + 2 * middle])
			high = middle;
		else if (address >= word[2 + 2 * middle])
			low = middle + 1;
		else
			return 1;
	}
	return 0;
}

#endif
