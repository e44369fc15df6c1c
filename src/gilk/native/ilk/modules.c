// SPDX-License-Identifier: GPL-2.0
/* Removes the units of a module that is unloaded, before its memory is freed. */
#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/rcupdate.h>

#include "ilk.h"
#include "d/d.h"

static int on_module(struct notifier_block *self, unsigned long event, void *data)
{
	struct module *module = data;
	unsigned long start = (unsigned long)module->core_layout.base;

	if (event != MODULE_STATE_GOING)
		return NOTIFY_DONE;
	mutex_lock(&ilk_mutex);
	ilk_undo_module(start, start + module->core_layout.text_size);
	ilk_d_sites_gone(start, start + module->core_layout.text_size);
	mutex_unlock(&ilk_mutex);
	return NOTIFY_DONE;
}

/*
 * This runs before the notifiers of kprobes, which are still in place then, and before ftrace forgets the module's
 * sites.
 */
static struct notifier_block notifier = {
	.notifier_call = on_module,
	.priority = INT_MAX,
};

/* Keep the module loaded that has the code at `address`, which patches of the client call. */
int ilk_hold(struct ilk_client *client, u64 address)
{
	struct module *module;
	u32 i;
	int error = -EINVAL;

	rcu_read_lock_sched();
	module = ilk_kernel.__module_text_address(address);
	for (i = 0; module && i < client->nr_held; i++)
		if (client->held[i] == module)
			error = 0;
	if (error && module && module != THIS_MODULE && module->state == MODULE_STATE_LIVE) {
		if (client->nr_held == ILK_HELD_MAX)
			error = -ENOSPC;
		else if (try_module_get(module)) {
			client->held[client->nr_held++] = module;
			error = 0;
		}
	}
	rcu_read_unlock_sched();
	return error;
}

/* Release these modules. No unit of the client is left, and no task is in its patches. */
void ilk_let_go(struct ilk_client *client)
{
	while (client->nr_held)
		module_put(client->held[--client->nr_held]);
}

int ilk_modules_init(void)
{
	return register_module_notifier(&notifier);
}

void ilk_modules_exit(void)
{
	unregister_module_notifier(&notifier);
}
