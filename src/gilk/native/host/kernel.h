/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The host of a module in the stock kernel, on any CPU and in any context: a task, a softirq, an interrupt, an NMI.
 *
 * Need: interrupts are off. Then only an NMI can interrupt, no page table is freed, and the CPU stays the same.
 *
 * irq_work_queue() and sched_clock_cpu() are the only kernel functions that it calls; all else is inline, so that hardly
 * an instrument depends on a function that is itself instrumented. Licensed like the runtime, which is compiled with it
 * into one object: a module takes both under the GPL, as section 3 of the LGPL has it.
 */
#ifndef GILK_HOST_KERNEL_H
#define GILK_HOST_KERNEL_H

#include <linux/irq_work.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/pgtable.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/uaccess.h>
#include <asm/msr.h>
#include <asm/special_insns.h>

#define GILK_HOST_ONE_PROCESSOR 1
#include "own.h"
#include "segments.h"

#ifndef HOST_CHECKS_RANGES /* the driver's tests leave out one of these two, to show that it is needed */
#define HOST_CHECKS_RANGES true
#define HOST_CATCHES_FAULTS true
#endif
#define HOST_TRIES 64 /* only the kernel can write to this memory */
#define HOST_IN_PLACE 0 /* memory of a task may be unmapped by now: only checked loads read it */

/* Numbers are those of the initial PID namespace. */
static inline gilk_u32 host_pid(void)
{
	return current->tgid;
}

static inline gilk_u32 host_tid(void)
{
	return current->pid;
}

static inline gilk_u32 host_processor(void)
{
	return raw_smp_processor_id();
}

static inline gilk_u64 host_clock(void)
{
	return rdtsc();
}

static inline gilk_u64 host_stamp(void)
{
	return rdtsc();
}

/*
 * The task's time on a processor. The part since the last tick or context switch is known without the lock of the run
 * queue only if the scheduler's clock leaves nothing out (kernel/sched/core.c, update_rq_clock_task).
 */
static inline gilk_u64 host_thread_time(void)
{
	gilk_u64 told = current->se.sum_exec_runtime;
#if !defined(CONFIG_IRQ_TIME_ACCOUNTING) && !defined(CONFIG_PARAVIRT_TIME_ACCOUNTING)
	s64 since = sched_clock_cpu(raw_smp_processor_id()) - current->se.exec_start;

	if (since > 0 && !is_idle_task(current))
		told += since;
#endif
	return told;
}

/* Signals to the running task. Sending takes locks, so an irq_work sends them as soon as interrupts are on again. */
struct host_signals {
	struct irq_work work;
	gilk_u64 wanted; /* bit number - 1 */
	struct task_struct *task; /* a reference is held; null: no signal is to be sent */
};

static void host_send_signals(struct irq_work *work)
{
	struct host_signals *here = container_of(work, struct host_signals, work);
	gilk_u64 wanted = xchg(&here->wanted, 0);
	struct task_struct *task = xchg(&here->task, NULL);

	for (; task && wanted; wanted &= wanted - 1)
		send_sig(__builtin_ctzll(wanted) + 1, task, 1);
	if (task)
		put_task_struct(task);
}

static DEFINE_PER_CPU(struct host_signals, host_signals);

/* Call this before any clause runs: the linker does not relocate addresses in a module's per-CPU variables. */
static inline void host_start(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		per_cpu(host_signals, cpu).work = IRQ_WORK_INIT_HARD(host_send_signals);
}

/* Call this when no clause runs any more: waits until all signals are sent. May sleep; interrupts are on. */
static inline void host_stop(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		irq_work_sync(&per_cpu(host_signals, cpu).work);
}

/* Signals can be sent to the running task only. */
static inline void host_signal(gilk_u32 pid, gilk_u32 tid, gilk_u32 number)
{
	struct host_signals *here = this_cpu_ptr(&host_signals);

	if (tid != host_tid() || number - 1 >= 64)
		return;
	if (!cmpxchg(&here->task, NULL, current))
		get_task_struct(current);
	if (READ_ONCE(here->task) != current) /* an NMI has interrupted a request for another task */
		return;
	__atomic_fetch_or(&here->wanted, 1UL << (number - 1), __ATOMIC_RELAXED);
	irq_work_queue(&here->work);
}

static inline bool host_is_between(unsigned long address, unsigned long low, unsigned long high)
{
	return address - low < high - low;
}

/*
 * Whether the page is mapped write-back: reading such memory has no side effects. Device registers are mapped
 * otherwise.
 */
static inline bool host_is_write_back(unsigned long flags, unsigned long pat)
{
	return flags & _PAGE_PRESENT && !(flags & (_PAGE_PCD | _PAGE_PWT | pat));
}

/* Whether the address in vmalloc space is mapped. Another CPU may unmap it at any time: then the load faults. */
static inline bool host_is_mapped_memory(unsigned long address)
{
	pgd_t *pgd = (pgd_t *)__va(read_cr3_pa()) + pgd_index(address);
	p4d_t *p4d = p4d_offset(pgd, address);
	pud_t *pud;
	pmd_t *pmd;

	if (pgd_none(*pgd) || p4d_none(*p4d))
		return false;
	pud = pud_offset(p4d, address);
	if (pud_none(*pud) || pud_large(*pud))
		return host_is_write_back(pud_flags(*pud), _PAGE_PAT_LARGE);
	pmd = pmd_offset(pud, address);
	if (pmd_none(*pmd) || pmd_large(*pmd))
		return host_is_write_back(pmd_flags(*pmd), _PAGE_PAT_LARGE);
	return host_is_write_back(pte_flags(*pte_offset_kernel(pmd, address)), _PAGE_PAT);
}

/*
 * Whether the address may be kernel memory; only a load tells whether it is. Accepted are the direct map, struct pages,
 * the kernel image, vmalloc space and modules; not fixmaps, CPU entry areas, firmware, or user addresses.
 */
static inline bool host_is_kernel_memory(unsigned long address)
{
	unsigned long end = (unsigned long)high_memory;

	if (host_is_between(address, VMALLOC_START, VMALLOC_END + 1))
		return host_is_mapped_memory(address);
	return host_is_between(address, PAGE_OFFSET, end) ||
	       host_is_between(address, VMEMMAP_START, (unsigned long)pfn_to_page(__pa(end) >> PAGE_SHIFT)) ||
	       host_is_between(address, __START_KERNEL_map, MODULES_VADDR) ||
	       host_is_between(address, MODULES_VADDR, MODULES_END);
}

/* Whether the range lies in user space, and the running task has an address space that is loaded. */
static inline bool host_is_mapped(unsigned long address, unsigned long size)
{
	return current->mm && read_cr3_pa() == __pa(current->mm->pgd) &&
	       likely(__access_ok((void __user *)address, size));
}

/* The same, and the CPU runs the task itself, not an interrupt. */
static inline bool host_is_users(unsigned long address, unsigned long size)
{
	return in_task() && host_is_mapped(address, size);
}

static inline bool host_load_uncaught(void *to, unsigned long from, unsigned long size)
{
	unsigned long at;

	for (at = 0; at < size; at++)
		*(u8 *)(to + at) = *(const volatile u8 *)(from + at);
	return true;
}

/* Copy bytes that lie in one page: all of them or none. */
static inline bool host_load_kernels(void *to, unsigned long from, unsigned long size)
{
	unsigned long at = 0;

	if (!HOST_CATCHES_FAULTS)
		return host_load_uncaught(to, from, size);
	for (; at + 8 <= size; at += 8)
		__get_kernel_nofault(to + at, (void *)(from + at), u64, fault);
	for (; at < size; at++)
		__get_kernel_nofault(to + at, (void *)(from + at), u8, fault);
	return true;
fault:
	return false;
}

static inline bool host_load_users(void *to, unsigned long from, unsigned long size)
{
	unsigned long at = 0;

	pagefault_disable();
	__uaccess_begin_nospec();
	for (; at + 8 <= size; at += 8)
		unsafe_get_user(*(u64 *)(to + at), (u64 __user *)(from + at), fault);
	for (; at < size; at++)
		unsafe_get_user(*(u8 *)(to + at), (u8 __user *)(from + at), fault);
fault:
	__uaccess_end();
	pagefault_enable();
	return at == size;
}

static inline bool host_store_users(unsigned long to, const void *from, unsigned long size)
{
	unsigned long at = 0;

	pagefault_disable();
	__uaccess_begin();
	for (; at + 8 <= size; at += 8)
		unsafe_put_user(*(const u64 *)(from + at), (u64 __user *)(to + at), fault);
	for (; at < size; at++)
		unsafe_put_user(*(const u8 *)(from + at), (u8 __user *)(to + at), fault);
fault:
	__uaccess_end();
	pagefault_enable();
	return at == size;
}

static inline bool host_load_page(void *to, unsigned long from, unsigned long size)
{
	if (!HOST_CHECKS_RANGES || host_is_kernel_memory(from))
		return host_load_kernels(to, from, size);
	return host_is_users(from, size) && host_load_users(to, from, size);
}

/* Read kernel memory, or memory of the running task's process: the address tells which. */
static inline long host_peek_some(gilk_u32 pid, void *to, gilk_u64 from, gilk_u64 size)
{
	unsigned long done = 0, part;

	for (; done < size; done += part) {
		part = min_t(unsigned long, size - done, PAGE_SIZE - offset_in_page(from + done));
		if (!host_load_page(to + done, from + done, part))
			break;
	}
	return done || !size ? (long)done : -1;
}

static inline int host_peek(gilk_u32 pid, void *to, gilk_u64 from, gilk_u64 size)
{
	return host_peek_some(pid, to, from, size) == (long)size ? 0 : -1;
}

/* Write to the running task's process only: no D program writes to kernel memory. */
static inline int host_poke(gilk_u32 pid, gilk_u64 to, const void *from, gilk_u64 size)
{
	return host_is_users(to, size) && host_store_users(to, from, size) ? 0 : -1;
}

static inline int host_has_room(void)
{
	return 1;
}

#endif
