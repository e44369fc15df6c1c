/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A live patch that changes /proc/cmdline, like the kernel's samples/livepatch/livepatch-sample.c. */
#include <linux/livepatch.h>
#include <linux/module.h>
#include <linux/seq_file.h>

static int cmdline(struct seq_file *file, void *unused)
{
	seq_puts(file, "gilk: patched\n");
	return 0;
}

static struct klp_func functions[] = {
	{ .old_name = "cmdline_proc_show", .new_func = cmdline },
	{},
};

static struct klp_object objects[] = {
	{ .funcs = functions },
	{},
};

static struct klp_patch patch = {
	.mod = THIS_MODULE,
	.objs = objects,
};

static int __init start(void)
{
	return klp_enable_patch(&patch);
}

static void __exit stop(void)
{
}

module_init(start);
module_exit(stop);
MODULE_LICENSE("GPL");
MODULE_INFO(livepatch, "Y");
