/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "edges.h"

#include <stdlib.h>
#include <string.h>

/* No instruction lies at 0, so a slot with from == 0 is free. */
static struct edge *find(struct edges *edges, uint64_t from, uint64_t to)
{
	uint64_t at = ((from * 0x9e3779b97f4a7c15u) ^ (to * 0xc2b2ae3d27d4eb4fu)) >> 24 & edges->mask;

	while (edges->slots[at].from && (edges->slots[at].from != from || edges->slots[at].to != to))
		at = (at + 1) & edges->mask;
	return &edges->slots[at];
}

static void grow(struct edges *edges)
{
	struct edges bigger = { .mask = edges->mask ? edges->mask * 2 + 1 : 65535 };

	bigger.slots = calloc(bigger.mask + 1, sizeof *bigger.slots);
	for (uint64_t at = 0; edges->slots && at <= edges->mask; at++)
		if (edges->slots[at].from)
			*find(&bigger, edges->slots[at].from, edges->slots[at].to) = edges->slots[at];
	free(edges->slots);
	edges->slots = bigger.slots;
	edges->mask = bigger.mask;
}

bool edges_add(struct edges *edges, uint64_t from, uint64_t to)
{
	struct edge *edge;

	if (edges->used * 2 >= edges->mask)
		grow(edges);
	edge = find(edges, from, to);
	if (edge->from)
		return false;
	*edge = (struct edge){ from, to };
	edges->used++;
	return true;
}

void edges_forget(struct edges *edges)
{
	if (edges->slots)
		memset(edges->slots, 0, (edges->mask + 1) * sizeof *edges->slots);
	edges->used = 0;
}

void edges_write(struct edges *edges, const struct spans *spans, uint64_t from, uint64_t to)
{
	const struct span *a = spans_find(spans, from), *b = spans_find(spans, to);

	if (a && b)
		fprintf(edges->out, "%s %lx %s %lx\n", a->image, from - a->bias, b->image, to - b->bias);
}
