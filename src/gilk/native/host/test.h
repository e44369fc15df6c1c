/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The host of a test: an ordinary program or shared object, compiled with GILK_HOST_TEST and _GNU_SOURCE, that controls
 * the runtime by `host_test`. The clock is a number; the test can make memory unreadable and refuse room; nothing
 * sleeps; signals are recorded, not sent. Everything else calls the C library.
 */
#ifndef GILK_HOST_TEST_H
#define GILK_HOST_TEST_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../abi/gilk_abi.h"
#include "own.h"
#include "segments.h"

#define HOST_IN_PROCESS 1
#define HOST_IN_PLACE 1
#define HOST_TRIES 100000

/* tests/native/host.py declares the same struct. */
struct host_test {
	gilk_u64 clock;		/* its next reading */
	gilk_u64 tick;		/* how far each reading advances it; 0: it stands still */
	gilk_u64 thread_time;	/* ns */
	gilk_u64 lost;		/* start of the memory that can neither be read nor written */
	gilk_u64 lost_size;	/* its size in bytes */
	gilk_u64 asked;		/* how often room was asked for */
	gilk_u64 refuse_first;	/* the first request that is refused, counted from 1 */
	gilk_u64 refuse_last;	/* the last one; 0: no request is refused */
	struct gilk_block *first; /* threads begin with this block; null: host_block() is null, host_owner() 0 */
	void (*on_wait)(const gilk_u32 *word, gilk_u32 value, long nanoseconds); /* what others do meanwhile, or null */
	gilk_u32 processor;
	gilk_u32 waits;
	gilk_u32 wakes;
	gilk_u32 signals;	/* how many were sent; the latest one follows */
	gilk_u32 signal_pid, signal_tid, signal_number, reserved;
};

#define HOST_SHARED __attribute__((weak, visibility("default")))

HOST_SHARED struct host_test host_test = {.clock = 1, .tick = 1};
HOST_SHARED __thread struct gilk_block *host_test_block;

static inline gilk_u32 host_pid(void)
{
	return (gilk_u32)getpid();
}

static inline gilk_u32 host_tid(void)
{
	return (gilk_u32)gettid();
}

static inline gilk_u32 host_processor(void)
{
	return host_test.processor;
}

static inline gilk_u64 host_clock(void)
{
	return __atomic_fetch_add(&host_test.clock, host_test.tick, __ATOMIC_RELAXED);
}

static inline gilk_u64 host_stamp(void)
{
	return host_clock();
}

static inline gilk_u64 host_thread_time(void)
{
	return host_test.thread_time;
}

static inline void host_signal(gilk_u32 pid, gilk_u32 tid, gilk_u32 number)
{
	host_test.signals++;
	host_test.signal_pid = pid;
	host_test.signal_tid = tid;
	host_test.signal_number = number;
}

static inline int host_is_gone(gilk_u32 pid, gilk_u32 tid)
{
	return syscall(SYS_tgkill, pid, tid, 0) < 0 && errno == ESRCH;
}

/* How many of the `size` bytes at `address` come before the first byte that cannot be read. */
static inline gilk_u64 host_before_lost(gilk_u64 address, gilk_u64 size)
{
	if (address - host_test.lost < host_test.lost_size)
		return 0;
	return host_test.lost_size && host_test.lost - address < size ? host_test.lost - address : size;
}

static inline long host_peek_some(gilk_u32 pid, void *to, gilk_u64 from, gilk_u64 size)
{
	struct iovec here = {to, host_before_lost(from, size)}, there = {(void *)from, here.iov_len};

	return here.iov_len || !size ? (long)process_vm_readv((pid_t)pid, &here, 1, &there, 1, 0) : -1;
}

static inline int host_peek(gilk_u32 pid, void *to, gilk_u64 from, gilk_u64 size)
{
	return host_peek_some(pid, to, from, size) == (long)size ? 0 : -1;
}

static inline int host_poke(gilk_u32 pid, gilk_u64 to, const void *from, gilk_u64 size)
{
	struct iovec here = {(void *)from, size}, there = {(void *)to, size};

	if (host_before_lost(to, size) != size)
		return -1;
	return process_vm_writev((pid_t)pid, &here, 1, &there, 1, 0) == (ssize_t)size ? 0 : -1;
}

static inline int host_has_room(void)
{
	gilk_u64 time = __atomic_add_fetch(&host_test.asked, 1, __ATOMIC_RELAXED);

	return time < host_test.refuse_first || time > host_test.refuse_last;
}

static inline gilk_u64 host_self(void)
{
	return (gilk_u64)&host_test_block;
}

static inline int host_is_readable(gilk_u64 address)
{
	return address != 0;
}

static inline void host_other_stack(struct host_stack *stack)
{
	stack->flags = HOST_NO_STACK;
}

static inline void host_attach(struct gilk_block *block)
{
	host_test_block = block;
}

static inline struct gilk_block *host_block(void)
{
	return host_test_block ? host_test_block : host_test.first;
}

static inline gilk_u64 host_owner(void)
{
	return host_block() ? host_block()->owner : 0;
}

static inline void host_wait(const gilk_u32 *word, gilk_u32 value, long nanoseconds)
{
	host_test.waits++;
	if (host_test.on_wait)
		host_test.on_wait(word, value, nanoseconds);
}

static inline void host_wake(const gilk_u32 *word)
{
	(void)word;
	host_test.wakes++;
}

static inline long host_cwd(char *to, gilk_u64 size)
{
	return getcwd(to, size) && *to == '/' ? (long)strlen(to) + 1 : -1;
}

static inline long host_fd_path(gilk_u32 fd, char *to, gilk_u64 size)
{
	char link[32];

	snprintf(link, sizeof link, "/proc/thread-self/fd/%u", fd);
	return (long)readlink(link, to, size);
}

static inline long host_fd_offset(gilk_u64 fd)
{
	return (long)lseek((int)fd, 0, SEEK_CUR);
}

static inline long host_fd_flags(gilk_u64 fd)
{
	return fcntl((int)fd, F_GETFL);
}

static inline long host_thread_name(char *to)
{
	return prctl(PR_GET_NAME, to);
}

static inline long host_thread_nice(void)
{
	return getpriority(PRIO_PROCESS, 0);
}

static inline long host_thread_priority(void)
{
	struct sched_param param;
	int policy = sched_getscheduler(0);

	sched_getparam(0, &param);
	return policy == SCHED_FIFO || policy == SCHED_RR ? 99 - param.sched_priority : 120 + host_thread_nice();
}

/* The C library has no function that tells mounts apart. */
static inline long host_fd_mount(gilk_u64 fd)
{
	return fcntl((int)fd, F_GETFD) < 0 ? -1 : 0;
}

/* block.h: */

static inline int gilk_has_room(void)
{
	return host_has_room();
}

static inline void *host_block_at(gilk_u64 offset)
{
	return (gilk_u8 *)host_block() + offset;
}

static inline gilk_u64 gilk_block_load(gilk_u64 offset)
{
	return *(volatile gilk_u64 *)host_block_at(offset);
}

static inline gilk_u64 gilk_block_look(gilk_u64 offset)
{
	return *(gilk_u64 *)host_block_at(offset);
}

static inline void gilk_block_store(gilk_u64 offset, gilk_u64 value)
{
	*(volatile gilk_u64 *)host_block_at(offset) = value;
}

static inline void gilk_block_store32(gilk_u64 offset, gilk_u32 value)
{
	*(volatile gilk_u32 *)host_block_at(offset) = value;
}

static inline void gilk_block_store8(gilk_u64 offset, gilk_u8 value)
{
	*(volatile gilk_u8 *)host_block_at(offset) = value;
}

static inline void gilk_block_increment(gilk_u64 offset)
{
	__atomic_fetch_add((gilk_u64 *)host_block_at(offset), 1, __ATOMIC_RELAXED);
}

static inline void gilk_block_decrement(gilk_u64 offset)
{
	__atomic_fetch_sub((gilk_u64 *)host_block_at(offset), 1, __ATOMIC_RELAXED);
}

static inline int gilk_block_swap(gilk_u64 offset, gilk_u64 *seen, gilk_u64 to)
{
	return __atomic_compare_exchange_n((gilk_u64 *)host_block_at(offset), seen, to, 0, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED);
}

static inline gilk_u64 gilk_time(void)
{
	return host_clock();
}

#endif
