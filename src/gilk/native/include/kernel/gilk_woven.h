/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Functions and types that the C code of aspects in the kernel uses (lang/aspect/kernel). It runs at entries and
 * returns of kernel functions in a task, a softirq or an interrupt, with interrupts off. In an NMI it does nothing.
 *
 * Users' C is confined: it reads memory by gilk_fetch() and gilk_start() only, which use safe loads and note an address
 * that cannot be read: then the element does not match. It writes to words of instances and to its own variables only,
 * and has no loops.
 *
 * The state of the file's aspects (../gilk_aspect.h) lies in memory of the module, or in memory that is shared with
 * processes, which may write anything there: numbers from it are checked, and waits for busy words are short.
 *
 * A unit has functions for entries and for returns; their argument is the number of the kernel function. An entry whose
 * return is awaited leaves an activation, which is found by the address of the return address and that number.
 */
#ifndef GILK_WOVEN_H
#define GILK_WOVEN_H

#include <linux/irqflags.h>
#include <linux/kernel.h>
#include <linux/kdev_t.h>
#include <linux/limits.h>
#include <linux/stat.h>
#include <linux/string.h>

#include "../../host/kernel.h"
#include "../gilk_aspect.h"

#define GILK_ARGUMENTS 96
#define GILK_AREA 12288 /* bytes for the matches of one event */
#define GILK_TEXTS 4
#define GILK_TEXT 160 /* bytes of a text in a report, and of a text that is compared */
#define GILK_TOLD 232
#define GILK_A_PAUSE 1024 /* of the budget */
#define GILK_BUDGET 16384 /* how many places of the state a hit may examine: one or two milliseconds at worst */

struct gilk_here { /* one for each processor */
	gilk_u32 busy, unread, function, left;
	char texts[GILK_TEXTS][GILK_TEXT];
	char told[GILK_TOLD];
	char area[GILK_AREA] __attribute__((aligned(16)));
};

struct gilk_module_counts { /* read by the client (engines/aspect/woven_kernel.py) */
	gilk_u64 inside;  /* hits within hits, and in NMIs */
	gilk_u64 unread;  /* matches given up because memory could not be read */
	gilk_u64 crowded; /* calls whose return is missed for lack of room */
	gilk_u64 open;	  /* activations */
};

extern struct gilk_here *gilk_all_here;
extern struct gilk_module_counts gilk_module_counts;

static inline struct gilk_here *gilk_here(void)
{
	return gilk_all_here + raw_smp_processor_id();
}

static inline int gilk_afford(void)
{
	struct gilk_here *here = gilk_here();

	if (!here->left)
		return 0;
	here->left--;
	return 1;
}

/*
 * Pause, and take a large part of the budget: a hypervisor, or an emulator with one thread, may let another processor
 * run for a tenth of a second at each pause, and a process can make any number of words look busy.
 */
static inline void gilk_pause(void)
{
	struct gilk_here *here = gilk_here();

	here->left -= here->left < GILK_A_PAUSE ? here->left : GILK_A_PAUSE;
	__builtin_ia32_pause();
}

/* Begin a hit. If the result is not 0, interrupts are off until gilk_leave(). */
static inline int gilk_enter(unsigned long *flags, gilk_u32 function)
{
	struct gilk_here *here;

	if (in_nmi()) {
		gilk_add(&gilk_module_counts.inside, 1);
		return 0;
	}
	raw_local_irq_save(*flags);
	here = gilk_here();
	if (here->busy) {
		gilk_add(&gilk_module_counts.inside, 1);
		raw_local_irq_restore(*flags);
		return 0;
	}
	here->busy = 1;
	here->unread = 0;
	here->left = GILK_BUDGET;
	here->function = function;
	return 1;
}

static inline void gilk_leave(unsigned long flags)
{
	gilk_here()->busy = 0;
	raw_local_irq_restore(flags);
}

/* Load memory for users' C. Memory that cannot be read is 0. */

static __always_inline void *gilk_loaded(void *to, const volatile void *from, unsigned long size)
{
	if (host_peek(0, to, (gilk_u64)from, size)) {
		memset(to, 0, size);
		gilk_here()->unread = 1;
	}
	return to;
}

/* Load a number or pointer from memory. */
#define gilk_fetch(place)                                                  \
	({                                                                 \
		__auto_type gilk_place = &(place);                         \
		__typeof__(*gilk_place) gilk_value;                        \
		(void)sizeof((__typeof__(*gilk_place))0);                  \
		gilk_loaded((void *)&gilk_value, gilk_place, sizeof gilk_value); \
		gilk_value;                                                \
	})

/* Copy an array from memory, and give the address of the copy; or load a pointer. */
#define gilk_start(place) \
	(*(__typeof__(&(place)))gilk_loaded((char[sizeof(place) <= 512 ? sizeof(place) : -1]){ 0 }, &(place), sizeof(place)))

static inline int gilk_note_held(int holds)
{
	struct gilk_here *here = gilk_here();

	if (!here->unread)
		return holds;
	here->unread = 0;
	gilk_add(&gilk_module_counts.unread, 1);
	return 0;
}

/* Whether a condition holds: it does not if it, or a binding before it, has read memory that cannot be read. */
#define gilk_holds(condition) gilk_note_held(!!(condition))
#define gilk_readable() gilk_note_held(1)

#define gilk_divided(left, right, op, other)                                                   \
	({                                                                                     \
		__auto_type gilk_left = (left);                                                \
		__auto_type gilk_right = (right);                                              \
		__typeof__(gilk_left op gilk_right) gilk_result_ = 0;                          \
		if (!gilk_right)                                                               \
			gilk_here()->unread = 1;                                               \
		else if ((__typeof__(gilk_result_))-1 < 1 && (__typeof__(gilk_result_))gilk_right == (__typeof__(gilk_result_))-1) \
			gilk_result_ = other;                                                  \
		else                                                                           \
			gilk_result_ = gilk_left op gilk_right;                                \
		gilk_result_;                                                                  \
	})
#define gilk_divide(left, right) gilk_divided(left, right, /, -(__typeof__(gilk_result_))gilk_left)
#define gilk_remainder(left, right) gilk_divided(left, right, %, 0)

static inline gilk_u64 gilk_on_stack(gilk_u64 rsp, gilk_u64 number)
{
	gilk_u64 value;

	gilk_loaded(&value, (void *)(rsp + 8 + 8 * number), 8);
	return value;
}

/* A character of a text; 0 behind its readable part. If not even the first can be read, this is noted. */
static inline char gilk_character(const char *text, unsigned long n)
{
	char one;

	if (!host_peek(0, &one, (gilk_u64)(text + n), 1))
		return one;
	gilk_here()->unread |= !n;
	return 0;
}

static inline void gilk_copy_checked(char *to, const char *from, unsigned long size)
{
	unsigned long n;

	for (n = 0; n + 1 < size && (to[n] = gilk_character(from, n)); n++)
		;
	for (; n < size; n++)
		to[n] = 0;
}

/* Copy the text that is argument `number` of a report. */
static inline const char *gilk_text(int number, const char *from)
{
	char *to = gilk_here()->texts[number];

	gilk_copy_checked(to, from, GILK_TEXT);
	return to;
}

static inline int gilk_strncmp(const char *one, const char *other, unsigned long most)
{
	unsigned long n;

	for (n = 0; n < most && n < GILK_TEXT; n++) {
		unsigned char a = gilk_character(one, n), b = gilk_character(other, n);

		if (a != b || !a)
			return a - b;
	}
	return 0;
}

static inline int gilk_strcmp(const char *one, const char *other)
{
	return gilk_strncmp(one, other, GILK_TEXT);
}

static inline unsigned long gilk_strlen(const char *text)
{
	unsigned long n;

	for (n = 0; n < GILK_TEXT && gilk_character(text, n); n++)
		;
	return n;
}

/* Write a report: the aspect, the process and the thread in hexadecimal digits, and then the text. */
#define gilk_tell(whose, ...)                                                                                 \
	({                                                                                                    \
		char *gilk_told = gilk_here()->told;                                                          \
		scnprintf(gilk_told, GILK_TOLD, "%04x%08x%08x", (unsigned)(whose), current->tgid, current->pid); \
		scnprintf(gilk_told + 20, GILK_TOLD - 20, __VA_ARGS__);                                       \
		gilk_log_string(gilk_set, 1, gilk_told);                                                      \
	})

/* Activations: calls whose returns are awaited. */

#define GILK_ACTIVATIONS 8192
#define GILK_TRIES 32

struct gilk_kept_call {
	gilk_u64 key; /* 0: free */
	const struct task_struct *task;
	gilk_u64 started; /* start time of the task, since another task may have its memory later */
	gilk_u64 on;
	char came[GILK_ARGUMENTS];
};

extern struct gilk_kept_call *gilk_calls_kept;

static inline gilk_u64 gilk_call_key(gilk_u64 rsp, gilk_u32 function)
{
	return (gilk_u64)function << 48 | (rsp & 0xffffffffffffUL);
}

static inline struct gilk_kept_call *gilk_call_at(gilk_u64 key, unsigned n)
{
	return gilk_calls_kept + (((key * 0x9e3779b97f4a7c15UL >> 40) + n) & (GILK_ACTIVATIONS - 1));
}

static inline struct gilk_kept_call *gilk_call_of(gilk_u64 key)
{
	struct gilk_kept_call *one;
	unsigned n;

	for (n = 0; n < GILK_TRIES; n++) {
		one = gilk_call_at(key, n);
		if (READ_ONCE(one->key) == key)
			return one;
	}
	return 0;
}

static inline int gilk_any_activation(void)
{
	return READ_ONCE(gilk_module_counts.open) != 0;
}

static inline void gilk_activate(gilk_u64 rsp, gilk_u32 function, gilk_u64 on, const void *came, unsigned long size)
{
	gilk_u64 key = gilk_call_key(rsp, function);
	struct gilk_kept_call *one = gilk_call_of(key); /* a call that was left without its return */
	unsigned n;

	for (n = 0; !one && n < GILK_TRIES; n++)
		if (gilk_swap(&gilk_call_at(key, n)->key, 0, key)) {
			one = gilk_call_at(key, n);
			gilk_add(&gilk_module_counts.open, 1);
		}
	if (!one) {
		gilk_add(&gilk_module_counts.crowded, 1);
		return;
	}
	one->task = current;
	one->started = current->start_time;
	one->on = on;
	memcpy(one->came, came, size);
}

/* End an activation. Returns the aspects that were on at the entry; 0 if the entry was not seen. */
static inline gilk_u64 gilk_deactivate(gilk_u64 rsp, gilk_u32 function, void *came, unsigned long size)
{
	struct gilk_kept_call *one = gilk_call_of(gilk_call_key(rsp, function));
	gilk_u64 on;

	if (!one)
		return 0;
	on = one->task == current && one->started == current->start_time ? one->on : 0;
	memcpy(came, one->came, size);
	smp_store_release(&one->key, 0);
	gilk_add(&gilk_module_counts.open, -1UL);
	return on;
}

/* Make the patch return to the function's caller with `value`, instead of running the function. */
static inline void gilk_return(const struct gilk_regs *regs, gilk_u64 value)
{
	struct gilk_call *call = (struct gilk_call *)((gilk_u64 *)(regs + 1) + 1); /* above the thunk's return address */

	((struct gilk_regs *)regs)->rax = value;
	call->iid = 0;
}

#undef gilk_copy_text
#define gilk_copy_text(to, from, size) gilk_copy_checked(to, from, size)

#endif
