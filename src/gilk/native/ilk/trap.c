// SPDX-License-Identifier: GPL-2.0
/*
 * Our own int3: wherever a unit has one, it leads to the unit's patch. Kprobes
 * and the kernel's own text poking have looked at the trap before us.
 */
#include <linux/kdebug.h>
#include <linux/kprobes.h>
#include <linux/notifier.h>
#include <linux/ptrace.h>

#include "ilk.h"

atomic64_t ilk_traps = ATOMIC64_INIT(0);

static int on_die(struct notifier_block *self, unsigned long event, void *data)
{
	struct die_args *args = data;
	struct ilk_site *site;

	if (event != DIE_INT3 || !args->regs || user_mode(args->regs))
		return NOTIFY_DONE;
	site = ilk_site_trapped(args->regs->ip - 1);
	if (!site)
		return NOTIFY_DONE;
	args->regs->ip = site->patch;
	arch_atomic64_inc(&ilk_traps);
	return NOTIFY_STOP;
}
NOKPROBE_SYMBOL(on_die);
NOKPROBE_SYMBOL(ilk_site_trapped);

static struct notifier_block notifier = {
	.notifier_call = on_die,
	.priority = INT_MAX,
};

/*
 * Whether an address is in a notifier that is asked of an int3 before we are: those
 * that were there already (hw_breakpoint_exceptions_notify). Later ones come behind.
 */
bool ilk_trap_asks(unsigned long address)
{
	struct notifier_block *each;
	bool found = false;

	rcu_read_lock();
	for (each = rcu_dereference(ilk_kernel.die_chain->head); each && each != &notifier && !found;
	     each = rcu_dereference(each->next))
		found = ilk_in_function(address, (unsigned long)each->notifier_call);
	rcu_read_unlock();
	return found;
}

int ilk_trap_init(void)
{
	return register_die_notifier(&notifier);
}

void ilk_trap_exit(void)
{
	unregister_die_notifier(&notifier);
}
