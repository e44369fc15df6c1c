/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Calls that go on in another function: a function that ends in a jump returns where the function returns that it has
 * jumped to. An instrument in front of the jump makes a *note*; the instruments in front of the returns of all functions
 * to which such jumps lead look for the notes of the frame that returns, and write the records that are due.
 *
 * A frame is known by its stack pointer at the entry, where that points at the return address; the same at the jump, and
 * at the return. Stacks are unique in an address space, so a call may go on in another thread (a coroutine) meanwhile.
 * `frame` is that stack pointer plus a key: the process's, as a forked child has the same stacks and the same table; in
 * the kernel the task's, as a stack is given to another task when one has ended.
 *
 * The table is a window of GILK_ONWARD_WINDOW places from the frame's hash on. open[hash] counts the notes whose frames
 * have that hash, so that a return which no note is about costs the look at one byte (splice/onward.py).
 *
 * Ownership: the client makes the table, all zero, and sets the serial numbers; the notes are the target's. A place is
 * claimed by a locked exchange of `frame`, and given up by another one; what code that runs in the frame has read
 * before that is whole. Where all places are taken, the oldest note is overwritten: that call may have been left without
 * a return, or its process may have ended. This counts as a record that found no room.
 */
#ifndef GILK_ONWARD_H
#define GILK_ONWARD_H

#include "gilk_regs.h"

#define GILK_ONWARD_BITS 14
#define GILK_ONWARD_HASHES (1U << GILK_ONWARD_BITS)
#define GILK_ONWARD_WINDOW 16
#define GILK_ONWARD_FACTOR 0x9e3779b1U
#define GILK_ONWARD_CLIENTS 128

struct gilk_onward_note {
	gilk_u64 frame;	 /* 0: the place is free */
	gilk_u64 order;	 /* the time when it was made: of several of a frame, the latest call returns first; 0: not yet */
	gilk_u32 number; /* of the function: the client above, below the iid of its calls' beginnings; the next is of ends */
	gilk_u32 serial; /* the client's serial number when it was made */
	gilk_u64 rsp;	 /* the stack pointer, plus 1 while the entry of the function that was jumped to is yet to come */
};

struct gilk_onward {
	gilk_u8 open[GILK_ONWARD_HASHES];
	gilk_u32 serial[GILK_ONWARD_CLIENTS]; /* another one each time that a client's number is given anew */
	struct gilk_onward_note note[GILK_ONWARD_HASHES + GILK_ONWARD_WINDOW];
};

static inline gilk_u32 gilk_onward_hash(gilk_u64 rsp)
{
	return (gilk_u32)rsp * GILK_ONWARD_FACTOR >> (32 - GILK_ONWARD_BITS);
}

#endif
