// SPDX-License-Identifier: GPL-2.0
/*
 * Signals that clauses send to the task that runs: raise() and stop().
 *
 * A clause runs with interrupts off, and may run with whatever lock held: the signal is sent by an interrupt that the
 * processor sends itself, as soon as interrupts are on. Init gets none, for the kernel ends with it; nor do threads of the
 * kernel, whoever has ended, and the client itself, which would not go on to end the program.
 */
#include <linux/sched.h>
#include <linux/sched/signal.h>

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
