// SPDX-License-Identifier: GPL-2.0
/* Groups that run by the clock: a timer on every CPU, or on one. */
#include <linux/cpu.h>
#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <asm/irq_regs.h>

#include "attached.h"
#include "d.h"

#define CLOCKS_MAX 4096u /* of a program; a clock on every CPU counts once for each that is online */

struct clock {
	struct list_head list;
	struct hrtimer timer;
	struct ilk_program *program;
	u64 period;
	u32 group;
	u32 probe;
	int cpu;
	bool pinned; /* it rings on this CPU only */
};

/* Load the arguments: the place that the timer has interrupted. */
static void load(struct ilk_firing *firing)
{
	struct pt_regs *regs = get_irq_regs();

	if (regs)
		firing->arg[user_mode(regs)] = instruction_pointer(regs);
}

static enum hrtimer_restart rings(struct hrtimer *timer)
{
	struct clock *clock = container_of(timer, struct clock, timer);
	struct ilk_firing firing = {
		.program = clock->program, .group = clock->group, .probe = clock->probe,
	};
	unsigned long flags;

	if (clock->pinned && raw_smp_processor_id() != clock->cpu)
		return HRTIMER_NORESTART; /* its CPU has gone offline; here rings another one */
	load(&firing);
	raw_local_irq_save(flags);
	ilk_d_run(&firing);
	raw_local_irq_restore(flags);
	hrtimer_forward_now(timer, ns_to_ktime(clock->period)); /* missed ticks are skipped */
	return HRTIMER_RESTART;
}

/* Start a timer; this runs on the timer's CPU. */
static long start(void *given)
{
	struct clock *clock = given;

	hrtimer_start(&clock->timer, ns_to_ktime(clock->period), HRTIMER_MODE_REL_PINNED_HARD);
	return 0;
}

/* Start a timer on its CPU, unless that is offline, or goes offline meanwhile. */
static int start_there(struct clock *clock)
{
	long error = cpu_online(clock->cpu) ? work_on_cpu_safe(clock->cpu, start, clock) : -ENODEV;

	return error == -ENODEV ? 0 : error;
}

static int add(struct ilk_program *p, const void *message, int cpu)
{
	const struct ilk_d_clock *m = message;
	struct clock *clock;

	if (p->nr_clocks >= CLOCKS_MAX)
		return -E2BIG;
	clock = kzalloc(sizeof(*clock), GFP_KERNEL);
	if (!clock)
		return -ENOMEM;
	clock->program = p;
	clock->period = m->period;
	clock->group = m->group;
	clock->probe = m->probe;
	clock->cpu = cpu;
	clock->pinned = m->flags & ILK_D_EVERY_CPU;
	hrtimer_init(&clock->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	clock->timer.function = rings;
	list_add_tail(&clock->list, &p->clocks);
	p->nr_clocks += cpu_online(cpu);
	return start_there(clock);
}

int ilk_d_clock(struct ilk_client *client, struct ilk_d_clock *m)
{
	struct ilk_program *p = client->program;

	if (!p)
		return -ENXIO;
	if (m->period < ILK_D_PERIOD_MIN || m->period >> 62 || m->group >= p->clauses.sizes.groups || m->reserved ||
	    m->flags & ~ILK_D_EVERY_CPU)
		return -EINVAL;
	return ilk_d_on_cpus(m->flags & ILK_D_EVERY_CPU, add, p, m);
}

/* Start the timers of CPUs that have come online. */
void ilk_d_clocks_renew(struct ilk_program *p)
{
	struct clock *clock;

	list_for_each_entry(clock, &p->clocks, list)
		if (clock->pinned && !hrtimer_active(&clock->timer))
			start_there(clock);
}

void ilk_d_clocks_stop(struct ilk_program *p)
{
	struct clock *clock, *next;

	list_for_each_entry_safe(clock, next, &p->clocks, list) {
		hrtimer_cancel(&clock->timer);
		list_del(&clock->list);
		kfree(clock);
	}
}
