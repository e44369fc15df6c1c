/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The attachments of a program: how many there are, and on which CPUs more are made.
 *
 * A CPU may go offline and come back, and one may come that was not there. So there is something for each possible CPU,
 * and once a second (deadman.c) it is put in force where it is not. No callback of the kernel does that: one would wait
 * for ilk_mutex while the kernel holds its lock of CPUs, which others take inside of ilk_mutex. Need: ilk_mutex.
 */
#ifndef ILK_D_ATTACHED_H
#define ILK_D_ATTACHED_H

#include <linux/cpu.h>
#include <linux/list.h>

#include "d.h"

typedef int ilk_d_adder(struct ilk_program *program, const void *message, int cpu);

static inline u32 ilk_d_length(const struct list_head *list)
{
	const struct list_head *at;
	u32 n = 0;

	for (at = list->next; at != list; at = at->next)
		n++;
	return n;
}

/* Have `add` attach something for every CPU, or for the first one. Returns the first error; what came before stays. */
static inline int ilk_d_on_cpus(bool every, ilk_d_adder *add, struct ilk_program *program, const void *message)
{
	int cpu, error = 0;

	if (!every)
		return add(program, message, cpumask_first(cpu_online_mask));
	for_each_possible_cpu(cpu) {
		error = add(program, message, cpu);
		if (error)
			break;
	}
	return error;
}

#endif
