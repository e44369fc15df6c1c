/* SPDX-License-Identifier: GPL-2.0 */
/* A ring as its writer has it. No kernel header is needed: tests run rings.c in user space too. */
#ifndef ILK_RINGS_H
#define ILK_RINGS_H

#define ILK_CHUNK 16384u

struct ilk_buffers;

struct ilk_ring {
	u64 wpos; /* generated code moves it; see RINGS in ilk_abi.h. The rest is rings.c's. */
	u64 base;
	u64 entered; /* chunks so far: what head->entered says, but nobody else can write it */
	u32 place; /* where the next chunk is to lie, in chunks */
	u32 chunks; /* a power of two */
	bool entering; /* what interrupts that is an NMI */
	struct ilk_ring_head *head;
	u64 *numbers; /* of the chunks, by place */
	u64 *tail; /* the client may write anything there */
	struct ilk_buffers *buffers;
};

#endif
