/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The set of pairs of addresses that ran one after the other. */
#ifndef EDGES_H
#define EDGES_H

#include "places.h"

#include <stdio.h>

struct edges {
	struct edge {
		uint64_t from, to;
	} *slots;
	uint64_t mask, used;
	FILE *out;
};

/* True if the pair is new since the last edges_forget. */
bool edges_add(struct edges *edges, uint64_t from, uint64_t to);

/* Forgets run-time addresses: images have moved, and the same numbers may mean others. */
void edges_forget(struct edges *edges);

/* Writes "IMAGE HEXFROM IMAGE HEXTO", if both lie in images. */
void edges_write(struct edges *edges, const struct spans *spans, uint64_t from, uint64_t to);

#endif
