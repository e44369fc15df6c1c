/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * An instrument in the kernel may use the same functions as one in a process (../gilk.h), and every header of the
 * kernel.
 *
 * It runs in the context of its point: a task, a softirq, an interrupt or an NMI, perhaps with interrupts off and locks
 * held. So it must not sleep or fault, nor take a lock that the interrupted code may hold. An instrument that takes
 * registers or calls functions of the kernel does not run again in its own context when these functions hit it; such
 * hits are counted as nested.
 *
 * Each instrument is a module. The client sets the variables below when it loads the module.
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

/* Record an integer and the time. */
static inline void ilk_log_integer_sample(gilk_u64 value, gilk_u32 iid)
{
	gilk_log_pair(gilk_set, iid, value, 0);
}

/* Record two integers and the time. */
static inline void ilk_log_pair_sample(gilk_u64 value, gilk_u64 extra, gilk_u32 iid)
{
	gilk_log_pair(gilk_set, iid, value, extra);
}

/* Record a text up to its NUL, at most 232 bytes of it, as far as it can be read. */
static inline void ilk_log_string_sample(const char *text, gilk_u32 iid)
{
	gilk_log_string(gilk_set, iid, text);
}

/* Record all registers. */
static inline void ilk_log_registers_sample(const struct gilk_regs *regs, gilk_u32 iid)
{
	gilk_log_registers(gilk_set, iid, regs);
}

#endif
