// SPDX-License-Identifier: GPL-2.0
/* Functions that generated code and C instruments call. */
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <asm/msr.h>

#include "ilk.h"
#include "d/d.h"

#define TEXT_MOST sizeof_field(struct gilk_record_regs, u.text)

/* One flag for each context: an interrupt may come while a task's instrument runs. */
static DEFINE_PER_CPU(u8[4], running);
static DEFINE_PER_CPU(u64, missed);

static u32 context(void)
{
	return in_nmi() ? 3 : in_hardirq() ? 2 : in_serving_softirq() ? 1 : 0;
}

/* From the thunk ilk_registers. */
void ilk_dispatch(struct gilk_regs *regs, const struct gilk_call *call)
{
	void (*function)(const struct gilk_regs *regs, u32 iid) =
		(void *)(unsigned long)call->function;
	u8 *flag;

	regs->rip = call->pc;
	regs->rsp = (u64)(unsigned long)(call + 1) + call->shift;
	preempt_disable_notrace();
	flag = &(*raw_cpu_ptr(&running))[context()];
	if (*flag) {
		raw_cpu_inc(missed);
	} else {
		*flag = 1;
		barrier();
		function(regs, call->iid);
		barrier();
		*flag = 0;
	}
	preempt_enable_notrace();
}

u64 ilk_missed_sum(void)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu(missed, cpu);
	return sum;
}

static void *reserve(u32 set, u32 class_)
{
	if (set >= ILK_SETS || !ilk_filter_wants(set))
		return NULL;
	return (void *)(unsigned long)ilk_reserve_slow(class_ + ILK_CLASSES * set);
}

static void commit(struct gilk_record *record, u32 iid, u64 sp)
{
	record->who = (u32)current->pid | (u32)(sp >> 4 & 0x3ff) << 22;
	record->tsc = rdtsc();
	smp_store_release(&record->iid, iid);
}

/* Record the time, for a stack pointer that the caller gives. */
void ilk_stamp(u32 set, u32 iid, u64 sp)
{
	struct gilk_record_stamp *record = reserve(set, 0);

	if (record)
		commit(&record->head, iid, sp);
}

void ilk_log_pair(u32 set, u32 iid, u64 value, u64 extra)
{
	struct gilk_record_integer *record = reserve(set, 1);

	if (!record)
		return;
	record->value = value;
	record->extra = extra;
	commit(&record->head, iid, (u64)(unsigned long)__builtin_frame_address(0));
}

/* Record a string up to its zero, to the end of readable memory, or to the end of the record. */
void ilk_log_string(u32 set, u32 iid, const char *text)
{
	struct gilk_record_regs *record = reserve(set, 3);
	u64 n;
	u8 *to;

	if (!record)
		return;
	to = record->u.text;
	for (n = 0; n < TEXT_MOST; n++)
		if (copy_from_kernel_nofault(to + n, text + n, 1) || !to[n])
			break;
	record->length = n;
	record->reserved = 0;
	commit(&record->head, iid, (u64)(unsigned long)__builtin_frame_address(0));
}

void ilk_log_registers(u32 set, u32 iid, const struct gilk_regs *regs)
{
	struct gilk_record_regs *record = reserve(set, 3);

	if (!record)
		return;
	record->length = 0;
	record->reserved = 0;
	memcpy(record->u.reg, regs, sizeof(*regs));
	commit(&record->head, iid, regs->rsp);
}
