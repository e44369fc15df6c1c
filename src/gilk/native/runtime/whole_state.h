/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The state that the original code would have at the place where a signal has interrupted a patch. A patch moves the
 * stack pointer, saves what the program still needs, does its work, and restores that (splice/frame.py).
 *
 * Ownership: a context is that of a signal frame, on the stack of the calling thread, which no one else changes
 * meanwhile; the patch in which it was interrupted stays mapped as long as it may go on there.
 */
#ifndef GILK_WHOLE_STATE_H
#define GILK_WHOLE_STATE_H

#include "runtime.h"

struct gilk_whole {
	gilk_u64 rip;	/* in the original code */
	gilk_u64 frame; /* GILK_FRAME_...; 0: all registers are the original ones */
};

/* Do in the context what comes next in its patch, as far as that only restores registers. */
void gilk_restore_rest(gilk_u64 context);

/* Work out the original state of a context amid a patch. Returns 0 if that is not known. */
int gilk_find_whole(gilk_u64 context, struct gilk_whole *found);

/* Exchange registers and flags of the context with what the frame of its patch holds, to the original state or back. */
void gilk_show_whole(gilk_u64 context, gilk_u64 frame);
void gilk_hide_whole(gilk_u64 context, gilk_u64 frame);

#endif
