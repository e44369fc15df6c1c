/* SPDX-License-Identifier: GPL-2.0 */
/* What a program has attached: how much there is, and on which CPUs more is attached. Need: ilk_mutex. */
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

/* Have `add` attach something on every CPU, or on the first one. Returns the first error; what came before stays. */
static inline int ilk_d_on_cpus(bool every, ilk_d_adder *add, struct ilk_program *program, const void *message)
{
	int cpu, error = 0;

	if (!every)
		return add(program, message, cpumask_first(cpu_online_mask));
	for_each_online_cpu(cpu) {
		error = add(program, message, cpu);
		if (error)
			break;
	}
	return error;
}

#endif
