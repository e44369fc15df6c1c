/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Exchanges the registers and flags of a context with what the frame of its patch holds. */
#include "context_words.h"
#include "whole_state.h"

static gilk_u64 field(gilk_u64 frame, unsigned from)
{
	return frame >> from & GILK_FRAME_FIELD;
}

static void exchange(gilk_u64 *one, gilk_u64 *other)
{
	gilk_u64 value = *one;

	*one = *other;
	*other = value;
}

/* Exchange the registers. Returns the word behind them, where the flags may lie. */
static gilk_u64 *exchange_registers(gilk_u64 context, gilk_u64 frame, gilk_u64 rsp)
{
	gilk_u64 *word = (gilk_u64 *)rsp + field(frame, GILK_FRAME_WORDS);

	for (unsigned number = 0; number < 16; number++)
		if (frame >> number & 1)
			exchange(gilk_context_word(context, gilk_index_of(number)), word++);
	return word;
}

void gilk_show_whole(gilk_u64 context, gilk_u64 frame)
{
	gilk_u64 *rsp = gilk_context_word(context, GILK_RSP_INDEX);
	gilk_u64 *flags = gilk_context_word(context, GILK_FLAGS_INDEX);
	gilk_u64 *word = exchange_registers(context, frame, *rsp), was = *flags;

	if (frame & GILK_FRAME_FLAGS) {
		*flags = gilk_flags_of_image(was, *word);
		*word = was;
	}
	*rsp += 8 * field(frame, GILK_FRAME_DEPTH);
}

/* The patch restores what the handler has changed. */
void gilk_hide_whole(gilk_u64 context, gilk_u64 frame)
{
	gilk_u64 *rsp = gilk_context_word(context, GILK_RSP_INDEX);
	gilk_u64 *flags = gilk_context_word(context, GILK_FLAGS_INDEX);
	gilk_u64 below = *rsp - 8 * field(frame, GILK_FRAME_DEPTH), shown = *flags;
	gilk_u64 *word = exchange_registers(context, frame, below);

	if (frame & GILK_FRAME_FLAGS) {
		*flags = (*word & GILK_ARITHMETIC) | (shown & ~GILK_ARITHMETIC);
		*word = gilk_image_of_flags(shown);
	}
	*rsp = below;
}
