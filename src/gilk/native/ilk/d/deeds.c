// SPDX-License-Identifier: GPL-2.0
/*
 * The destructive actions of clauses: raise() and stop() send signals to the running task, chill() delays it.
 *
 * A clause runs with interrupts off, and any lock may be held: an irq_work sends the signal as soon as interrupts are
 * on. No signal is sent to init, whose end would be the kernel's, to kernel threads, to tasks that have ended, and to
 * the client itself, which could not end the program any more.
 */
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <asm/tsc.h>

#include "d.h"
#include "task.h"
#include "../../host/kernel.h"

void ilk_d_deeds_init(void)
{
	host_start();
}

void ilk_d_deeds_exit(void)
{
	host_stop();
}

static bool may_be_sent_one(const struct ilk_deeds *deeds)
{
	struct task_struct *pending = READ_ONCE(this_cpu_ptr(&host_signals)->task);

	return in_task() && current->mm && !(current->flags & (PF_KTHREAD | PF_EXITING)) && !is_global_init(current) &&
	       (u32)current->tgid != deeds->client && (!pending || pending == current);
}

bool ilk_d_may_write(const struct ilk_deeds *deeds)
{
	return (u32)current->tgid != deeds->client;
}

static void note_stop(struct ilk_deeds *deeds)
{
	u32 i, count = READ_ONCE(deeds->stopped), at;

	for (i = 0; i < count && i < ILK_D_STOPPED; i++)
		if (READ_ONCE(deeds->process[i]) == (u32)current->tgid)
			return;
	at = count < ILK_D_STOPPED ? __atomic_fetch_add(&deeds->stopped, 1, __ATOMIC_RELAXED) : count;
	if (at < ILK_D_STOPPED)
		WRITE_ONCE(deeds->process[at], current->tgid);
	else
		WRITE_ONCE(deeds->stopped, ILK_D_STOPPED + 1);
}

bool ilk_d_signal(struct ilk_deeds *deeds, u64 number)
{
	if (number - 1 >= _NSIG || !may_be_sent_one(deeds))
		return false;
	if (number == SIGSTOP)
		note_stop(deeds);
	host_signal(host_pid(), host_tid(), number);
	return true;
}

#define CHILL_MOST 500000000ull /* ns of chill() that are allowed in */
#define CHILL_IN 1000000000ull /* so many ns on a processor, for all programs together */

struct chilled {
	u64 since; /* TSC */
	u64 spent; /* ns */
};

static DEFINE_PER_CPU(struct chilled, chilled);

static u64 ticks(u64 ns)
{
	return ns * tsc_khz / 1000000;
}

/*
 * Whether this processor may spin for `ns` more; if so, they are counted. The count of an NMI in between may be lost.
 */
static bool may_chill(u64 ns)
{
	struct chilled *here = this_cpu_ptr(&chilled);

	if (host_clock() - here->since > ticks(CHILL_IN)) {
		here->since = host_clock();
		here->spent = 0;
	}
	if (here->spent > CHILL_MOST || ns > CHILL_MOST - here->spent)
		return false; /* an NMI that came between this and the addition may have spent more than is allowed */
	here->spent += ns;
	return true;
}

/* Spin for `ns`, as DTrace does: interrupts are off. */
bool ilk_d_chill(u64 ns)
{
	u64 start = host_clock();

	if (ns > CHILL_MOST || !may_chill(ns))
		return false;
	while (host_clock() - start < ticks(ns))
		cpu_relax();
	return true;
}
