// SPDX-License-Identifier: GPL-2.0
/* Walks the kernel stack with the kernel's own unwinder, from the registers at the probe. */
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <asm/irq_regs.h>
#include <asm/unwind.h>

#include "d.h"
#include "task.h"

/* Build the pt_regs that the unwinder reads, with the original address of the probe. */
static void show(struct pt_regs *to, const struct gilk_regs *from)
{
	*to = (struct pt_regs){
		.r15 = from->r15, .r14 = from->r14, .r13 = from->r13, .r12 = from->r12, .bp = from->rbp, .bx = from->rbx,
		.r11 = from->r11, .r10 = from->r10, .r9 = from->r9, .r8 = from->r8, .ax = from->rax, .cx = from->rcx,
		.dx = from->rdx, .si = from->rsi, .di = from->rdi, .orig_ax = -1, .ip = from->rip, .cs = __KERNEL_CS,
		.flags = from->rflags, .sp = from->rsp, .ss = __KERNEL_DS,
	};
}

static void put(u64 *to, u32 at, u64 address)
{
	if (to)
		to[at] = address;
}

/* Walk the stack. The unwinder begins with the function's caller. */
static u32 walk(struct pt_regs *regs, u64 *to, u32 most)
{
	struct unwind_state state;
	u32 count = 1;

	if (!most)
		return 0;
	put(to, 0, regs->ip);
	unwind_start(&state, current, regs, NULL);
	for (; count < most && !unwind_done(&state); unwind_next_frame(&state)) {
		unsigned long address = unwind_get_return_address(&state);

		if (!address)
			break;
		put(to, count++, address);
	}
	return count;
}

u32 ilk_d_stack(const void *regs, u64 *to, u32 most)
{
	struct pt_regs shown, *interrupted = get_irq_regs();

	if (regs) {
		show(&shown, regs);
		return walk(&shown, to, most);
	}
	return interrupted && !user_mode(interrupted) ? walk(interrupted, to, most) : 0;
}
