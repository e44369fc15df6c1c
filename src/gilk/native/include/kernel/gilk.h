/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * An instrument in the kernel may use the same as one in a process
 * (../gilk.h), and every header of the kernel besides.
 *
 * It runs wherever its point is: in a task, a softirq, an interrupt or an NMI,
 * perhaps with interrupts off and locks held. So it must not sleep, fault or
 * take a lock that the code around it may hold. One that takes registers or
 * calls functions of the kernel is not entered again in its own context by what
 * it calls; those hits are counted as nested.
 *
 * It is a module of its own. The client sets the variables below when it loads it.
 */
#ifndef GILK_KERNEL_H
#define GILK_KERNEL_H

#include <asm/msr.h>

#include "../../abi/gilk_regs.h"

extern gilk_u32 gilk_set;
extern void (*gilk_log_pair)(gilk_u32 set, gilk_u32 iid, gilk_u64 value, gilk_u64 extra);
extern void (*gilk_log_string)(gilk_u32 set, gilk_u32 iid, const char *text);
extern void (*gilk_log_registers)(gilk_u32 set, gilk_u32 iid, const struct gilk_regs *regs);

/* Time stamp counter; gilk turns it into nanoseconds when it stores samples. */
static inline gilk_u64 gilk_time(void)
{
	return rdtsc();
}

/* One integer, with the time it was logged. */
static inline void ilk_log_integer_sample(gilk_u64 value, gilk_u32 iid)
{
	gilk_log_pair(gilk_set, iid, value, 0);
}

/* Two integers. */
static inline void ilk_log_pair_sample(gilk_u64 value, gilk_u64 extra, gilk_u32 iid)
{
	gilk_log_pair(gilk_set, iid, value, extra);
}

/* Up to 232 bytes of text; it stops at the terminating zero. What cannot be read is left out. */
static inline void ilk_log_string_sample(const char *text, gilk_u32 iid)
{
	gilk_log_string(gilk_set, iid, text);
}

/* All registers. */
static inline void ilk_log_registers_sample(const struct gilk_regs *regs, gilk_u32 iid)
{
	gilk_log_registers(gilk_set, iid, regs);
}

#endif
