/* SPDX-License-Identifier: GPL-2.0 */
/* The entry points of checked code, by number, and what has a run ready for them. */
#ifndef ILK_D_HELPERS_H
#define ILK_D_HELPERS_H

struct ilk_run;

extern void *const ilk_d_helpers[];
void ilk_d_prepare(struct ilk_run *run);

#endif
