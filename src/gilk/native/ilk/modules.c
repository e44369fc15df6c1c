// SPDX-License-Identifier: GPL-2.0
/* A module that is unloaded takes its units with it, before its memory goes. */
#include <linux/module.h>
#include <linux/notifier.h>

#include "ilk.h"

static int on_module(struct notifier_block *self, unsigned long event, void *data)
{
	struct module *module = data;
	unsigned long start = (unsigned long)module->core_layout.base;

	if (event != MODULE_STATE_GOING)
		return NOTIFY_DONE;
	mutex_lock(&ilk_mutex);
	ilk_undo_module(start, start + module->core_layout.text_size);
	mutex_unlock(&ilk_mutex);
	return NOTIFY_DONE;
}

/* Before kprobes, whose own are still in place, and before ftrace forgets the module's sites. */
static struct notifier_block notifier = {
	.notifier_call = on_module,
	.priority = INT_MAX,
};

int ilk_modules_init(void)
{
	return register_module_notifier(&notifier);
}

void ilk_modules_exit(void)
{
	unregister_module_notifier(&notifier);
}
