// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * D's runtime on the host of the kernel (native/host/kernel.h), as clauses would use it.
 *
 * /dev/gilk_test_host is the memory of a program. Writing a command to the parameter `run` carries it out, and reading
 * the parameter gives the result:
 *	clauses COUNT	each CPU runs that many, from an interrupt, all of them at once
 *	loads		a line for each kind of address: NAME, how many bytes could be read
 *	process		the same of the process that writes this, and stores
 *	clock		on each CPU: how many of many readings went back, and how many were more than the one before
 *	signal		a thread of the kernel sends itself one: how many before interrupts were on, and after
 */
#include <linux/fs.h>
#include <linux/io.h>
#include <linux/kthread.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <asm/cpu_entry_area.h>
#include <asm/fixmap.h>

#include "runtime/d/deeds.h"

#include "layout.h"

static gd_u8 *memory;
static char said[2048];
static int length;
static DEFINE_RAW_SPINLOCK(saying);

/* Adds to the text that `run` gives to its reader; any CPU may call this. */
static __printf(1, 2) void say(const char *format, ...)
{
	unsigned long flags;
	va_list arguments;

	va_start(arguments, format);
	raw_spin_lock_irqsave(&saying, flags);
	length += vscnprintf(said + length, sizeof(said) - length, format, arguments);
	raw_spin_unlock_irqrestore(&saying, flags);
	va_end(arguments);
}

/* Clauses. */

static void begin(struct gd_context *ctx, struct gd_event *event)
{
	*event = (struct gd_event){ .cpu = GD_NO_CPU, .pid = host_pid(), .tid = host_tid(), .thread = host_tid() };
	gd_begin(ctx, memory, &gd_layout_here, event);
}

/* A clause that records `n` and the CPU; every third one also in a speculation. */
static void run_clause(gd_u64 n)
{
	gd_u64 key[2] = { n % 4, raw_smp_processor_id() }, value = n, kept = 0;
	struct gd_event event;
	struct gd_context ctx;

	begin(&ctx, &event);
	if (gd_reserve(&ctx, 1, 16)) {
		((gd_u64 *)ctx.data)[0] = n;
		((gd_u64 *)ctx.data)[1] = key[1];
	}
	gd_commit(&ctx);
	gd_count(&ctx, 1, NULL, 0);
	gd_sum(&ctx, 2, key, 16, (gd_s64)n);
	gd_quantize(&ctx, 3, key, 8, (gd_s64)n, 1);
	gd_dynamic_store(&ctx, 7, key, 16, &value, 8);
	if (!gd_dynamic_load(&ctx, 7, key, 16, &kept, 8) || kept != value)
		gd_fail(&ctx, GD_FAULT_LIBRARY, n);
	if (n % 3 == 0) {
		gd_u64 id = gd_speculation(&ctx);

		gd_speculate(&ctx, id);
		if (gd_reserve(&ctx, 2, 8))
			*(gd_u64 *)ctx.data = n;
		gd_commit(&ctx);
		gd_commit_speculation(&ctx, id);
	}
	if (ctx.fault)
		gd_report(&ctx, 1, 1, 0);
	gd_end(&ctx);
}

static void run_clauses(void *count)
{
	unsigned long n;

	for (n = 0; n < (unsigned long)count; n++)
		run_clause(n);
}

/* Loads. */

static const char constant[] = "a constant of the module's";

static void say_load(const char *name, unsigned long from, unsigned long size)
{
	static char to[2 * PAGE_SIZE];
	unsigned long flags;
	long got;

	local_irq_save(flags);
	got = host_peek_some(host_pid(), to, from, size);
	if (got > 0 && memcmp(to, (void *)from, got))
		got = -2;
	if ((host_peek(host_pid(), to, from, size) == 0) != (got == (long)size))
		got = -3;
	if (!host_poke(host_pid(), from, to, size < 8 ? size : 8))
		got = -4;
	local_irq_restore(flags);
	say("%s %ld\n", name, got);
}

static void say_memory(void)
{
	char *page = (char *)__get_free_page(GFP_KERNEL), *mapped = vmalloc(2 * PAGE_SIZE);
	void __iomem *apic = ioremap(0xfee00000, PAGE_SIZE);

	if (page && mapped && apic) {
		memset(page, 'p', PAGE_SIZE);
		memset(mapped, 'm', 2 * PAGE_SIZE);
		say_load("direct", (unsigned long)page + 3, 100);
		say_load("mapped", (unsigned long)mapped, 2 * PAGE_SIZE);
		say_load("half", (unsigned long)mapped + PAGE_SIZE, 2 * PAGE_SIZE);
		say_load("guard", (unsigned long)mapped + 2 * PAGE_SIZE, 8);
		say_load("edge", (unsigned long)mapped + 2 * PAGE_SIZE - 3, 8);
		say_load("device", (unsigned long)apic + 0x30, 4);
		say("unchecked %d\n", host_load_kernels(page, (unsigned long)apic + 0x30, 4)); /* so the device's memory is mapped */
	}
	vfree(mapped);
	say_load("freed", (unsigned long)mapped, 8);
	free_page((unsigned long)page);
	iounmap(apic);
}

static void say_loads(void)
{
	say_load("module", (unsigned long)constant, sizeof(constant));
	say_load("text", (unsigned long)&_printk, 64);
	say_load("struct", (unsigned long)pfn_to_page(1), 8);
	say_memory();
	say_load("null", 0, 8);
	say_load("low", 0xfff, 8);
	say_load("middle", 1UL << 47, 8);
	say_load("hole", 0x8000000000000000UL, 8);
	say_load("beyond", (unsigned long)high_memory + (1UL << 40), 8);
	say_load("vsyscall", 0xffffffffff600000UL, 8);
	say_load("fixmap", fix_to_virt(0), 8);
	say_load("entry", CPU_ENTRY_AREA_BASE, 8);
	say_load("last", ~0UL - 3, 4);
	say_load("around", ~0UL - 3, 16);
}

static void peek_in_interrupt(struct irq_work *work)
{
	unsigned long at = current->mm ? current->mm->arg_start : 0;
	char text[8];

	say("interrupt %d %d\n", host_peek(host_pid(), text, at, 8), host_poke(host_pid(), at, text, 8));
	say("unchecked %d\n", host_load_users(text, at, 8)); /* so it interrupted that process */
}

static struct irq_work interrupt = IRQ_WORK_INIT_HARD(peek_in_interrupt);

/* Reads and writes the process's arguments, which lie on its stack. */
static void say_process(void)
{
	unsigned long at = current->mm->arg_start, end = current->mm->arg_end, flags;
	char text[16] = "", again[16] = "", changed;
	int stored;

	local_irq_save(flags);
	say("peek %d\n", host_peek(host_pid(), text, at, 8));
	changed = text[0] ^ 1;
	stored = host_poke(host_pid(), at, &changed, 1);
	say("poke %d\n", stored);
	say("seen %d\n", !host_peek(host_pid(), again, at, 8) && again[0] == changed && !memcmp(again + 1, text + 1, 7));
	say("back %d\n", host_poke(host_pid(), at, text, 1));
	say("unmapped %d %d\n", host_peek(host_pid(), text, 4096, 8), host_poke(host_pid(), 4096, text, 8));
	local_irq_restore(flags);
	irq_work_queue(&interrupt);
	irq_work_sync(&interrupt);
	say("ran %d\n", host_thread_time() > 0);
	say("identity %d\n", host_pid() == task_tgid_nr(current) && host_tid() == task_pid_nr(current));
	say("text %.7s of %lu\n", text, end - at);
}

/* Clock. */

#define READINGS 100000

static void say_clock(void *unused)
{
	gd_u64 before = host_clock(), first = before, back = 0, n;

	for (n = 0; n < READINGS; n++) {
		gd_u64 now = host_clock();

		back += now < before;
		before = now;
	}
	say("clock %u %llu %d %d\n", host_processor(), back, before > first, host_processor() == smp_processor_id());
}

/* Signals. */

static int send_itself(void *unused)
{
	unsigned long flags;
	int early, i;

	allow_signal(SIGUSR1);
	allow_signal(SIGUSR2);
	local_irq_save(flags);
	host_signal(host_pid(), host_tid(), SIGUSR1);
	host_signal(host_pid(), host_tid(), SIGUSR2);
	host_signal(host_pid(), host_tid() + 1, SIGTERM);
	host_signal(host_pid(), host_tid(), 0);
	host_signal(host_pid(), host_tid(), 65);
	early = signal_pending(current);
	local_irq_restore(flags);
	host_stop();
	for (i = 0; signal_pending(current) && i < 64; i++)
		kernel_dequeue_signal();
	say("early %d, signals %d\n", early, i);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

static void say_signal(void)
{
	struct task_struct *task = kthread_run(send_itself, NULL, "gilk_test_host");

	if (!IS_ERR(task)) {
		while (!READ_ONCE(length))
			schedule_timeout_uninterruptible(1);
		kthread_stop(task);
	}
}

/* Carries out a command; the results of clauses are in the memory only. */
static int run(const char *what, const struct kernel_param *parameter)
{
	unsigned long count;

	length = 0;
	said[0] = 0;
	if (sscanf(what, "clauses %lu", &count) == 1)
		on_each_cpu(run_clauses, (void *)count, 1);
	else if (sysfs_streq(what, "loads"))
		say_loads();
	else if (sysfs_streq(what, "process"))
		say_process();
	else if (sysfs_streq(what, "clock"))
		on_each_cpu(say_clock, NULL, 1);
	else if (sysfs_streq(what, "signal"))
		say_signal();
	else
		return -EINVAL;
	return 0;
}

static int tell(char *to, const struct kernel_param *parameter)
{
	return scnprintf(to, PAGE_SIZE, "%s", said);
}

static const struct kernel_param_ops operations = { .set = run, .get = tell };
module_param_cb(run, &operations, NULL, 0600);

static ssize_t get(struct file *file, char __user *to, size_t size, loff_t *at)
{
	return simple_read_from_buffer(to, size, at, memory, gd_layout_here.size);
}

static ssize_t put(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	return simple_write_to_buffer(memory, gd_layout_here.size, at, from, size);
}

static const struct file_operations files = { .owner = THIS_MODULE, .read = get, .write = put, .llseek = default_llseek };
static struct miscdevice device = { MISC_DYNAMIC_MINOR, "gilk_test_host", &files, .mode = 0600 };

static int __init load(void)
{
	int error;

	host_start();
	memory = vzalloc(gd_layout_here.size);
	if (!memory)
		return -ENOMEM;
	error = misc_register(&device);
	if (error)
		vfree(memory);
	return error;
}

static void __exit unload(void)
{
	misc_deregister(&device);
	host_stop();
	vfree(memory);
}

module_init(load);
module_exit(unload);
MODULE_DESCRIPTION("A test of native/host/kernel.h");
MODULE_LICENSE("GPL");
