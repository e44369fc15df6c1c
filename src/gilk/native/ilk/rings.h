/* SPDX-License-Identifier: GPL-2.0 */
/* A ring as its writer sees it. This needs no kernel header: tests run rings.c in user space, too. */
#ifndef ILK_RINGS_H
#define ILK_RINGS_H

#define ILK_CHUNK 16384u

struct ilk_buffers;

struct ilk_ring {
	u64 wpos; /* generated code advances it (RINGS in ilk_abi.h); all other members belong to rings.c */
	u64 base;
	u64 entered; /* how many chunks have been entered; a copy of head->entered that nobody else can write to */
	u32 place; /* the place of the next chunk, in chunks */
	u32 chunks; /* a power of two */
	bool entering; /* a chunk is being entered; only an NMI can find this set */
	struct ilk_ring_head *head;
	u64 *numbers; /* of the chunks, by place */
	u64 *tail; /* the client may write anything there */
	struct ilk_buffers *buffers;
};

#endif
