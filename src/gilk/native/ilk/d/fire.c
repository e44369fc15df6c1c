// SPDX-License-Identifier: GPL-2.0
/* Runs groups: at a site, by a clock, or at a client's request. */
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

#include "d.h"

enum level { NORMAL, NMI, LEVELS };

struct here {
	struct ilk_run *run[LEVELS];
	bool busy[LEVELS];
};

static DEFINE_PER_CPU(struct here, here);

/* Allocate the runs of all CPUs, which stay until the driver is unloaded. */
int ilk_d_runs_create(void)
{
	int cpu, level;

	for_each_possible_cpu(cpu)
		for (level = 0; level < LEVELS; level++) {
			struct ilk_run **run = &per_cpu(here, cpu).run[level];

			if (!*run)
				WRITE_ONCE(*run, vzalloc_node(sizeof(**run), cpu_to_node(cpu)));
			if (!*run)
				return -ENOMEM;
		}
	return 0;
}

void ilk_d_exit(void)
{
	int cpu, level;

	for_each_possible_cpu(cpu)
		for (level = 0; level < LEVELS; level++)
			vfree(per_cpu(here, cpu).run[level]);
}

/* Whether a group runs in the frame already. */
static bool is_nested(const struct here *me, enum level level)
{
	return me->busy[level] && !ilk_hit_omits(ILK_OMIT_NESTING);
}

/* Whether little is left of the task's stack. Interrupt stacks are as large, and begin empty. */
static bool is_shallow(void)
{
	unsigned long left = (unsigned long)__builtin_frame_address(0) - (unsigned long)task_stack_page(current);

	return left < ILK_D_STACK_LEAST && !ilk_hit_omits(ILK_OMIT_STACK);
}

static u32 kind_of_context(void)
{
	return in_nmi() ? 3 : in_hardirq() ? 2 : in_serving_softirq() ? 1 : 0;
}

static u64 identity(u32 kind)
{
	if (kind || !current->pid)
		return 1ull << 63 | (u64)kind << 60 | (u64)raw_smp_processor_id() << 22;
	return ilk_d_identity(current);
}

/* The identity of what runs here: a task, or an interrupt of one kind on this CPU. */
u64 ilk_d_thread(void)
{
	return identity(kind_of_context());
}

static void begin(struct ilk_run *run, const struct ilk_firing *firing)
{
	u32 kind = kind_of_context();

	/*
	 * Set member by member: zeroing the whole struct would cost more than all the rest. The arguments lie in the
	 * frame.
	 */
	run->event.time = 0;
	run->event.thread = identity(kind);
	run->event.probe = firing->probe;
	run->event.cpu = raw_smp_processor_id();
	run->event.pid = current->tgid;
	run->event.tid = current->pid;
	run->event.edge = !!firing->edge;
	run->event.regs = (const gd_u64 *)firing->regs;
	run->event.error = firing->error;
	run->event.copied = 0;
	ilk_d_begin(run, &firing->program->clauses, firing->arg, firing->always, kind);
	run->waits = firing->waits;
	ilk_d_prepare(run);
}

/* Run a group. Returns 0, or the address that must be made present before the group runs again. Interrupts are off. */
u64 ilk_d_run(const struct ilk_firing *firing)
{
	struct ilk_program *p = firing->program;
	enum level level = in_nmi() ? NMI : NORMAL;
	struct here *me = raw_cpu_ptr(&here);
	u64 missing;

	if (!firing->always && !gd_lets(READ_ONCE(((struct gd_control *)p->clauses.memory)->state), firing->probe))
		return 0;
	if (is_nested(me, level) || is_shallow()) {
		raw_cpu_inc(p->missed[!me->busy[level]]); /* one instruction: an NMI may do the same */
		return 0;
	}
	me->busy[level] = true;
	barrier();
	begin(me->run[level], firing);
	ilk_d_enter(p->code + p->clauses.entry[firing->group], me->run[level]->frame);
	missing = me->run[level]->missing;
	barrier();
	me->busy[level] = false;
	return missing;
}

int ilk_d_fire(struct ilk_client *client, struct ilk_d_fire *m)
{
	struct ilk_firing firing = {
		.program = client->program, .group = m->group, .probe = m->probe, .always = m->flags & ILK_D_ALWAYS,
	};
	unsigned long flags;

	if (!client->program)
		return -ENXIO;
	if (m->group >= client->program->clauses.sizes.groups || m->reserved || m->flags & ~ILK_D_ALWAYS)
		return -EINVAL;
	memcpy(firing.arg, m->arg, sizeof(firing.arg));
	raw_local_irq_save(flags);
	ilk_d_run(&firing);
	raw_local_irq_restore(flags);
	return 0;
}
