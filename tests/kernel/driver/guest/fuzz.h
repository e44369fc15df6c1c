/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Random numbers for messages: any, small ones, and limits. They depend only on the seed. */
#ifndef GILK_FUZZ_H
#define GILK_FUZZ_H

static unsigned long next(unsigned long *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static unsigned long number(unsigned long *state)
{
	static const unsigned long edges[] = { 0, 1, 5, 255, 4096, 0x7fffffff, 0xffffffff, 1ul << 32, 1ul << 40,
					       0x7fffffffffffffff, 0xffffffffffffffff, 0xffffffff81000000 };
	unsigned long which = next(state);

	if (which % 4 == 0)
		return edges[next(state) % (sizeof(edges) / sizeof(*edges))];
	return which % 4 == 1 ? next(state) : next(state) % 64;
}

#endif
