// SPDX-License-Identifier: LGPL-2.1-or-later
/* Calls gilk_test_bottom() with so many bytes of the task's stack left as are written to the parameter `left`. */
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>

noinline void gilk_test_bottom(void);
noinline void gilk_test_bottom(void)
{
	asm volatile("");
}

/* The stack pointer in between is kept where no call changes it. */
static noinline void descend(unsigned long left)
{
	unsigned long to = ((unsigned long)task_stack_page(current) + left) & ~15ul;

	asm volatile("mov %%rsp, %%r12\n"
		     "mov %0, %%rsp\n"
		     "call gilk_test_bottom\n"
		     "mov %%r12, %%rsp\n"
		     :
		     : "r"(to)
		     : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "cc", "memory");
}

static int set(const char *text, const struct kernel_param *kp)
{
	unsigned long left;
	int error = kstrtoul(text, 0, &left);

	if (error)
		return error;
	if (left < 64 || left > THREAD_SIZE / 2)
		return -EINVAL;
	descend(left);
	return 0;
}

static const struct kernel_param_ops ops = { .set = set };
module_param_cb(left, &ops, NULL, 0200);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("a function that is called with little stack left");
