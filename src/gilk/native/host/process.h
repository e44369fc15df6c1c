/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The host of a traced process. It uses the fs base, the gs base, and system calls by number, since it cannot rely on a
 * C library. Loads and stores of memory that may not be mapped are system calls, so that they cannot fault.
 */
#ifndef GILK_HOST_PROCESS_H
#define GILK_HOST_PROCESS_H

#include "own.h"
#include "segments.h"

#define HOST_IN_PROCESS 1
#define HOST_IN_PLACE 1
#define HOST_TRIES 100000

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

/* Linux keeps the processor's number in IA32_TSC_AUX, and in the limit of a segment (vdso, getcpu). */
static inline gilk_u32 host_processor(void)
{
	gilk_u64 number;

#ifdef HOST_RDPID
	__asm__("rdpid %0" : "=r"(number));
#else
	__asm__("lsl %k1, %k0" : "=r"(number) : "r"(0x7bUL) : "cc");
#endif
	return number & 0xfff;
}

static inline gilk_u64 host_clock(void)
{
	gilk_u32 low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (gilk_u64)high << 32 | low;
}

static inline gilk_u64 host_stamp(void)
{
	gilk_u32 low, high;

	__asm__("rdtsc" : "=a"(low), "=d"(high));
	return (gilk_u64)high << 32 | low;
}

struct host_time {
	long seconds;
	long nanoseconds;
};

static inline gilk_u64 host_thread_time(void)
{
	struct host_time time = {0, 0};

	host_syscall4(228, 3, (gilk_u64)&time, 0, 0); /* clock_gettime, CLOCK_THREAD_CPUTIME_ID */
	return (gilk_u64)time.seconds * 1000000000UL + (gilk_u64)time.nanoseconds;
}

static inline void host_signal(gilk_u32 pid, gilk_u32 tid, gilk_u32 number)
{
	host_syscall4(234, pid, tid, number, 0); /* tgkill */
}

static inline int host_is_gone(gilk_u32 pid, gilk_u32 tid)
{
	return host_syscall4(234, pid, tid, 0, 0) == (gilk_u64)-3; /* tgkill without a signal: ESRCH */
}

struct host_span {
	gilk_u64 address;
	gilk_u64 size;
};

static inline long host_vm(long call, gilk_u32 pid, const struct host_span *here, const struct host_span *there)
{
	return (long)host_syscall6((gilk_u64)call, pid, (gilk_u64)here, 1, (gilk_u64)there, 1, 0);
}

static inline long host_peek_some(gilk_u32 pid, void *to, gilk_u64 from, gilk_u64 size)
{
	struct host_span here = {(gilk_u64)to, size}, there = {from, size};

	return host_vm(310, pid, &here, &there); /* process_vm_readv */
}

static inline int host_peek(gilk_u32 pid, void *to, gilk_u64 from, gilk_u64 size)
{
	return host_peek_some(pid, to, from, size) == (long)size ? 0 : -1;
}

static inline int host_poke(gilk_u32 pid, gilk_u64 to, const void *from, gilk_u64 size)
{
	struct host_span here = {(gilk_u64)from, size}, there = {to, size};

	return host_vm(311, pid, &here, &there) == (long)size ? 0 : -1; /* process_vm_writev */
}

/* rt_sigprocmask is a call that seccomp filters rarely forbid: it reads the signal set, and then refuses the action. */
static inline int host_is_readable(gilk_u64 address)
{
	return host_syscall6(14, ~0UL, address, 0, 8, 0, 0) == (gilk_u64)-22; /* rt_sigprocmask, EINVAL */
}

static inline void host_other_stack(struct host_stack *stack)
{
	stack->flags = HOST_NO_STACK;
	host_syscall4(131, 0, (gilk_u64)stack, 0, 0); /* sigaltstack */
	stack->flags &= 0xffffffff;
}

static inline int host_has_room(void)
{
	return 1;
}

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

static inline struct gilk_block *host_block(void)
{
	struct gilk_block *block;

	__asm__ volatile("rdgsbase %0" : "=r"(block));
	return block;
}

static inline gilk_u64 host_owner(void)
{
	gilk_u64 owner;

	__asm__ volatile("movq %%gs:0, %0" : "=r"(owner) : : "memory");
	return owner;
}

static inline void host_wait(const gilk_u32 *word, gilk_u32 value, long nanoseconds)
{
	struct host_time limit = {0, nanoseconds};

	host_syscall4(202, (gilk_u64)word, 0, value, &limit); /* futex, FUTEX_WAIT, shared */
}

static inline void host_wake(const gilk_u32 *word)
{
	host_syscall4(202, (gilk_u64)word, 1, 0x7fffffff, 0); /* futex, FUTEX_WAKE, shared */
}

/* The kernel gives an unreachable directory a name that does not begin with a slash. */
static inline long host_cwd(char *to, gilk_u64 size)
{
	long length = (long)host_syscall4(79, (gilk_u64)to, size, 0, 0); /* getcwd */

	return length > 0 && to[0] == '/' ? length : -1;
}

#define HOST_FD_LINKS "/proc/thread-self/fd/"

/* The path is built backwards: first the digits from the end, then the text before them. */
static inline long host_fd_path(gilk_u32 fd, char *to, gilk_u64 size)
{
	char link[sizeof HOST_FD_LINKS + 10], *at = link + sizeof link - 1;

	*at = 0;
	do
		*--at = (char)('0' + fd % 10);
	while (fd /= 10);
	at -= sizeof HOST_FD_LINKS - 1;
	__builtin_memcpy(at, HOST_FD_LINKS, sizeof HOST_FD_LINKS - 1);
	return (long)host_syscall4(89, (gilk_u64)at, (gilk_u64)to, size, 0); /* readlink */
}

static inline long host_fd_offset(gilk_u64 fd)
{
	return (long)host_syscall4(8, fd, 0, 1, 0); /* lseek, SEEK_CUR */
}

static inline long host_fd_flags(gilk_u64 fd)
{
	return (long)host_syscall4(72, fd, 3, 0, 0); /* fcntl, F_GETFL */
}

#define HOST_AT_EMPTY_PATH 0x1000
#define HOST_STATX_MNT_ID 0x1000 /* since Linux 5.8 */

struct host_statx { /* the part of struct statx (linux/stat.h) that is used here */
	gilk_u32 mask;
	gilk_u32 other[35];
	gilk_u64 mount;
	gilk_u64 rest[13];
};

static inline long host_fd_mount(gilk_u64 fd)
{
	struct host_statx found;
	long result;

	found.mask = 0;
	result = (long)host_syscall6(332, fd, (gilk_u64)"", HOST_AT_EMPTY_PATH, HOST_STATX_MNT_ID, (gilk_u64)&found,
				     0); /* statx */
	if (result)
		return result == -9 ? -1 : 0; /* EBADF */
	return found.mask & HOST_STATX_MNT_ID ? (long)found.mount : 0;
}

static inline long host_thread_name(char *to)
{
	return (long)host_syscall4(157, 16, (gilk_u64)to, 0, 0); /* prctl, PR_GET_NAME */
}

static inline long host_thread_nice(void)
{
	return 20 - (long)host_syscall4(140, 0, 0, 0, 0); /* getpriority, PRIO_PROCESS: from 1 to 40 */
}

static inline long host_thread_priority(void)
{
	long policy = (long)host_syscall4(145, 0, 0, 0, 0) & 0xff; /* sched_getscheduler */
	int priority = 0;

	if (policy == 6) /* SCHED_DEADLINE */
		return -1;
	if (policy != 1 && policy != 2) /* SCHED_FIFO, SCHED_RR */
		return 120 + host_thread_nice();
	host_syscall4(143, 0, (gilk_u64)&priority, 0, 0); /* sched_getparam */
	return 99 - priority;
}

#endif
