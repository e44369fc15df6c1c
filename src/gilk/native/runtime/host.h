/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Need: what the runtime asks of its host. Nothing else may be called.
 *
 *   host_self()      identity of the running thread, nonzero, unique among
 *                    the threads that live in this address space
 *   host_attach(b)   make block b the one that gs-relative access reaches
 *   host_owner()     the owner noted in that block
 *   host_block()     that block
 *   host_pid()       process number, as the client sees it
 *   host_tid()       thread number
 *   host_clock()     the counter that time stamps are taken from
 *   host_wait(w,v,n) sleep while *w is v, for at most n ns; may return early
 *   host_wake(w)     wake who waits for *w, in whatever process
 *
 * This is the host of a process: fs base, gs base, system calls, rdtsc.
 */
#ifndef GILK_HOST_H
#define GILK_HOST_H

#include "../abi/gilk_abi.h"

static inline gilk_u64 host_self(void)
{
	gilk_u64 self;

	__asm__ volatile("rdfsbase %0" : "=r"(self));
	return self;
}

static inline void host_attach(struct gilk_block *block)
{
	__asm__ volatile("wrgsbase %0" : : "r"(block) : "memory");
}

static inline gilk_u64 host_owner(void)
{
	gilk_u64 owner;

	__asm__ volatile("movq %%gs:0, %0" : "=r"(owner) : : "memory");
	return owner;
}

static inline struct gilk_block *host_block(void)
{
	struct gilk_block *block;

	__asm__ volatile("rdgsbase %0" : "=r"(block));
	return block;
}

static inline gilk_u64 host_syscall0(gilk_u64 number)
{
	gilk_u64 result;

	__asm__ volatile("syscall" : "=a"(result) : "0"(number) : "rcx", "r11", "memory");
	return result;
}

static inline gilk_u64 host_syscall6(gilk_u64 number, gilk_u64 a, gilk_u64 b, gilk_u64 c, gilk_u64 d, gilk_u64 e,
				     gilk_u64 f)
{
	register gilk_u64 fourth __asm__("r10") = d;
	register gilk_u64 fifth __asm__("r8") = e;
	register gilk_u64 sixth __asm__("r9") = f;
	gilk_u64 result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
			 : "rcx", "r11", "memory");
	return result;
}

static inline gilk_u64 host_syscall4(gilk_u64 number, gilk_u64 a, gilk_u64 b, gilk_u64 c, const void *d)
{
	register const void *fourth __asm__("r10") = d;
	gilk_u64 result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
			 : "rcx", "r11", "memory");
	return result;
}

static inline gilk_u32 host_pid(void)
{
	return (gilk_u32)host_syscall0(39); /* getpid */
}

static inline gilk_u32 host_tid(void)
{
	return (gilk_u32)host_syscall0(186); /* gettid */
}

static inline gilk_u64 host_clock(void)
{
	gilk_u32 low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (gilk_u64)high << 32 | low;
}

struct host_time {
	long seconds;
	long nanoseconds;
};

static inline void host_wait(const gilk_u32 *word, gilk_u32 value, long nanoseconds)
{
	struct host_time limit = {0, nanoseconds};

	host_syscall4(202, (gilk_u64)word, 0, value, &limit); /* futex, FUTEX_WAIT, shared */
}

static inline void host_wake(const gilk_u32 *word)
{
	host_syscall4(202, (gilk_u64)word, 1, 0x7fffffff, 0); /* futex, FUTEX_WAKE, shared */
}

#endif
