/* SPDX-License-Identifier: GPL-2.0 */
/* The helpers of checked code, by number, and the preparation of a run for them. */
#ifndef ILK_D_HELPERS_H
#define ILK_D_HELPERS_H

struct ilk_run;

extern void *const ilk_d_helpers[];
void ilk_d_prepare(struct ilk_run *run);

/*
 * Move one record of a speculation that is being committed to this processor's buffer, from *at on, which begins as 0.
 * False: none is left. Interrupts are off; one caller at a time.
 */
struct ilk_clauses;
_Bool ilk_d_settle_one(const struct ilk_clauses *clauses, u32 cpu, u64 id, u64 *at);

#endif
