/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The addresses that those of patches stand for, and where displaced instructions have gone.
 *
 * Ownership: the table is the client's. Need: gilk_params.places is not null.
 */
#ifndef GILK_PLACES_H
#define GILK_PLACES_H

#include "runtime.h"

/* Keep the compiler from moving loads and stores across this place: others rely on their order. */
static inline void in_order(void)
{
	__asm__ volatile("" : : : "memory");
}

/* The last row at or below `address`, of patches or of displaced instructions; zeros if there is none. */
struct gilk_row gilk_row_of_patch(gilk_u64 address);
struct gilk_row gilk_row_of_displaced(gilk_u64 address);

#endif
