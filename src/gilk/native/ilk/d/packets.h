/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The bytes of a packet of the network, from a struct sk_buff and the pages that it refers to.
 *
 * Everything is read by safe loads: a structure that others change meanwhile gives bytes that no packet has, and no
 * harm. Packets in a list behind the first one (frag_list) are left out; what was taken is less than the length then.
 */
#ifndef ILK_D_PACKETS_H
#define ILK_D_PACKETS_H

#include "places.h"

#define ILK_D_FRAGMENTS 17u /* of a packet that are looked at; costs of helpers count on it */

/* The head of a packet: how many bytes follow, and how many the packet has. */
struct packet_head {
	u32 taken;
	u32 length;
};

/* Load the pages of a packet behind its first bytes. Returns how many bytes of `room` are filled then. */
static u64 load_fragments(struct gd_context *ctx, u8 *to, u64 filled, u64 room, u64 shared)
{
	u8 seen[ILK_D_FRAGMENT_SIZE], count;
	u64 from, size;
	u32 n;

	if (!gd_load(ctx, &count, shared + ILK_D_PACKET_COUNT, sizeof(count)))
		return filled;
	for (n = 0; n < count && n < ILK_D_FRAGMENTS && filled < room; n++) {
		if (!gd_load(ctx, seen, shared + ILK_D_PACKET_FRAGMENTS + n * sizeof(seen), sizeof(seen)))
			return filled;
		ilk_d_fragment(seen, &from, &size);
		size = size < room - filled ? size : room - filled;
		if (!gd_load(ctx, to + filled, from, size))
			return filled;
		filled += size;
		GD_LOOP();
	}
	return filled;
}

/* Load the bytes of the packet, `room` at the most. Returns how many there are. */
static u64 load_packet(struct gd_context *ctx, u64 packet, u8 *to, u64 room, u32 *length)
{
	u32 apart = 0, end = 0; /* bytes in pages; where the description of these is */
	u64 data = 0, head = 0, first;

	if (!gd_load(ctx, length, packet + ILK_D_PACKET_LENGTH, sizeof(*length)) ||
	    !gd_load(ctx, &apart, packet + ILK_D_PACKET_APART, sizeof(apart)) ||
	    !gd_load(ctx, &data, packet + ILK_D_PACKET_DATA, sizeof(data)))
		return 0;
	room = room < *length ? room : *length;
	first = apart < *length ? *length - apart : 0;
	first = first < room ? first : room;
	if (first && !gd_load(ctx, to, data, first))
		return 0;
	if (first == room || !gd_load(ctx, &head, packet + ILK_D_PACKET_HEAD, sizeof(head)) ||
	    !gd_load(ctx, &end, packet + ILK_D_PACKET_END, sizeof(end)))
		return first;
	return load_fragments(ctx, to, first, room, head + end);
}

/* A packet with its head. At address 0 there is none: its length is 0. */
HELPER(packet)
{
	struct ilk_run *run = run_of(frame);
	struct packet_head head = { 0, 0 };
	u8 *to = at(run, a, c);

	if (!to || c < sizeof(head))
		return 0;
	if (b)
		head.taken = load_packet(&run->context, b, to + sizeof(head), c - sizeof(head), &head.length);
	gd_bcopy(to, &head, sizeof(head));
	gd_zero(to + sizeof(head) + head.taken, c - sizeof(head) - head.taken);
	return !run->context.fault;
}

#endif
