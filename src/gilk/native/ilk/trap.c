// SPDX-License-Identifier: GPL-2.0
/*
 * Handles our own int3: it leads from a site to the site's patch. Kprobes and the kernel's own text poking have seen
 * the trap before us.
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

static struct notifier_block notifier = {
	.notifier_call = on_die,
	.priority = INT_MAX,
};

/* The functions that run between an int3 and on_die(): on 6.1 these are three, and one notifier. */
static struct {
	unsigned long start, end;
} way[32];
static unsigned int way_length;

bool ilk_on_the_way(unsigned long address)
{
	unsigned int i;

	for (i = 0; i < way_length; i++)
		if (address >= way[i].start && address < way[i].end)
			return true;
	return false;
}

static bool add_to_way(unsigned long function)
{
	unsigned long size, offset;

	if (way_length == ARRAY_SIZE(way) ||
	    !ilk_kernel.kallsyms_lookup_size_offset(function, &size, &offset))
		return false;
	way[way_length].start = function - offset;
	way[way_length++].end = function - offset + size;
	return true;
}

static bool find_way(void)
{
	char *const *each = (char *const *)&ilk_kernel.way;
	char *const *end = (char *const *)(&ilk_kernel.way + 1);
	struct notifier_block *other;
	bool all = true;

	for (; each < end; each++)
		if (*each)
			all &= add_to_way((unsigned long)*each);
	rcu_read_lock();
	/* notifiers that are called before ours (hw_breakpoint_exceptions_notify) */
	for (other = rcu_dereference(ilk_kernel.die_chain->head); other && other != &notifier;
	     other = rcu_dereference(other->next))
		all &= add_to_way((unsigned long)other->notifier_call);
	rcu_read_unlock();
	return all;
}

int ilk_trap_init(void)
{
	int error = register_die_notifier(&notifier);

	if (error)
		return error;
	if (find_way())
		return 0;
	pr_err("ilk: not all that is asked of an int3 before this driver can be found\n");
	unregister_die_notifier(&notifier);
	return -ENXIO;
}

void ilk_trap_exit(void)
{
	unregister_die_notifier(&notifier);
}
