/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The kernel's own ways to call a handler at a place, each with the least handler: it adds to a counter of the
 * processor. way=ftrace|ftrace-regs|kprobe|kretprobe symbol=NAME offset=BYTES; `hits` is readable while it is loaded.
 */
#include <linux/ftrace.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/percpu.h>

static char *way = "", *symbol = "";
static unsigned int offset;
static DEFINE_PER_CPU(unsigned long, counter);

module_param(way, charp, 0400);
module_param(symbol, charp, 0400);
module_param(offset, uint, 0400);

static int read_hits(char *text, const struct kernel_param *unused)
{
	unsigned long sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu(counter, cpu);
	return sprintf(text, "%lu\n", sum);
}

static const struct kernel_param_ops hits = { .get = read_hits };
module_param_cb(hits, &hits, NULL, 0400);

static void on_ftrace(unsigned long ip, unsigned long parent, struct ftrace_ops *ops,
		      struct ftrace_regs *regs)
{
	this_cpu_inc(counter);
}

static int on_kprobe(struct kprobe *probe, struct pt_regs *regs)
{
	this_cpu_inc(counter);
	return 0;
}

static int on_return(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	this_cpu_inc(counter);
	return 0;
}

static struct ftrace_ops ops = { .func = on_ftrace };
static struct kprobe probe = { .pre_handler = on_kprobe };
static struct kretprobe kretprobe = { .handler = on_return, .maxactive = 64 };

static int start_ftrace(unsigned long flags)
{
	int error = ftrace_set_filter(&ops, (unsigned char *)symbol, strlen(symbol), 1);

	ops.flags |= flags;
	return error ?: register_ftrace_function(&ops);
}

static int __init start(void)
{
	if (!strcmp(way, "ftrace"))
		return start_ftrace(0);
	if (!strcmp(way, "ftrace-regs"))
		return start_ftrace(FTRACE_OPS_FL_SAVE_REGS);
	probe.symbol_name = kretprobe.kp.symbol_name = symbol;
	probe.offset = offset;
	if (!strcmp(way, "kprobe"))
		return register_kprobe(&probe);
	return strcmp(way, "kretprobe") ? -EINVAL : register_kretprobe(&kretprobe);
}

static void __exit stop(void)
{
	if (!strncmp(way, "ftrace", 6))
		unregister_ftrace_function(&ops);
	else if (!strcmp(way, "kprobe"))
		unregister_kprobe(&probe);
	else
		unregister_kretprobe(&kretprobe);
}

module_init(start);
module_exit(stop);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("what gilk's costs in the kernel are compared with");
