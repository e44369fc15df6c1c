/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * An idle server on io_uring: the kernel's own threads read standard input, and the program waits for their answers.
 * `worker`: a thread that only reads; `sqpoll`: a thread that polls for requests.
 *
 * Prints "ready", "got N" for a read of N bytes, "ok" at the end of the input. Unexpected errors, such as EINTR, are
 * printed, and it exits with 1; without io_uring it prints "skipped: WHY" and exits with 77.
 */
#include <errno.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct io_uring_params params;
static char *rings;
static struct io_uring_sqe *requests;
static int ring;

#define RING(offset) ((unsigned int *)(rings + (offset)))

__attribute__((noinline, noclone)) long work(long x)
{
	__asm__ volatile("" ::: "memory");
	return x + 1;
}

static void fail(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	fflush(stdout);
	_exit(1);
}

static void set_up(int polled)
{
	size_t size;

	params.flags = polled ? IORING_SETUP_SQPOLL : 0;
	params.sq_thread_idle = 200;
	ring = (int)syscall(SYS_io_uring_setup, 4, &params);
	if (ring < 0 || !(params.features & IORING_FEAT_SINGLE_MMAP)) {
		printf("skipped: io_uring_setup: %s\n", ring < 0 ? strerror(errno) : "too old");
		exit(77);
	}
	size = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
	rings = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	requests = mmap(NULL, params.sq_entries * sizeof *requests, PROT_READ | PROT_WRITE, MAP_SHARED, ring,
			IORING_OFF_SQES);
	if (rings == MAP_FAILED || requests == MAP_FAILED)
		fail("mmap");
}

static void submit(char *letter, int polled)
{
	unsigned int tail = *RING(params.sq_off.tail), at = tail & *RING(params.sq_off.ring_mask);

	requests[at] = (struct io_uring_sqe){
		.opcode = IORING_OP_READ, .flags = polled ? 0 : IOSQE_ASYNC, .fd = 0, .off = (__u64)-1,
		.addr = (__u64)(unsigned long)letter, .len = 1,
	};
	RING(params.sq_off.array)[at] = at;
	__atomic_store_n(RING(params.sq_off.tail), tail + 1, __ATOMIC_SEQ_CST);
	if (!polled && syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0) != 1)
		fail("submit");
	if (polled && __atomic_load_n(RING(params.sq_off.flags), __ATOMIC_SEQ_CST) & IORING_SQ_NEED_WAKEUP &&
	    syscall(SYS_io_uring_enter, ring, 1, 0, IORING_ENTER_SQ_WAKEUP, NULL, 0) < 0)
		fail("wake up");
}

static int completed(void)
{
	unsigned int head = *RING(params.cq_off.head);
	struct io_uring_cqe *results = (struct io_uring_cqe *)(rings + params.cq_off.cqes);
	int result;

	while (__atomic_load_n(RING(params.cq_off.tail), __ATOMIC_ACQUIRE) == head)
		if (syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
			fail("io_uring_enter");
	result = results[head & *RING(params.cq_off.ring_mask)].res;
	__atomic_store_n(RING(params.cq_off.head), head + 1, __ATOMIC_RELEASE);
	return result;
}

int main(int argc, char **argv)
{
	int polled = argc > 1 && !strcmp(argv[1], "sqpoll"), result;
	long state = 0;
	char letter;

	set_up(polled);
	submit(&letter, polled);
	puts("ready");
	fflush(stdout);
	while ((result = completed()) > 0) {
		state = work(state);
		submit(&letter, polled);
		printf("got %d\n", result);
		fflush(stdout);
	}
	errno = -result;
	if (result < 0)
		fail("read");
	puts("ok");
	return state < 0;
}
