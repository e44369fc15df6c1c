/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads that sleep in the kernel: read, futex, nanosleep, epoll_wait, poll, sigtimedwait, and a condition variable.
 * Nobody signals them, so an EINTR or a short sleep is a tracer's fault; a sleeping frame must find its way back.
 *
 * Linux itself restarts all but epoll_wait and sigtimedwait after a mere stop (signal(7)): an EINTR of these two is
 * counted and printed as "interrupted N", any other fails.
 */
#include "check.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

enum { KINDS = 7, NAP_MS = 8, PATIENCE = 5000 };

static int pipes[KINDS][2], word;
static volatile int done;
static volatile long wakes[KINDS];
static volatile long interrupted;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

NOINLINE void must(int kind, long result, long wanted);
NOINLINE void must(int kind, long result, long wanted)
{
	CHECK(result == wanted, "sleeper %d: result %ld, not %ld, errno %s", kind, result, wanted, strerror(errno));
	wakes[kind]++;
}

static void sleep_read(int kind)
{
	char byte;

	must(kind, read(pipes[kind][0], &byte, 1), 1);
}

static void sleep_futex(int kind)
{
	struct timespec limit = { 0, NAP_MS * 1000000 };
	long result = syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &limit, NULL, 0);

	must(kind, result == 0 ? 0 : errno, result == 0 ? 0 : ETIMEDOUT);
}

static void sleep_nanosleep(int kind)
{
	struct timespec nap = { 0, NAP_MS * 1000000 };
	double start = seconds_now();

	must(kind, nanosleep(&nap, NULL), 0);
	CHECK(seconds_now() - start >= NAP_MS * 0.99e-3, "a nap was too short");
}

static void sleep_epoll(int kind)
{
	int got;
	struct epoll_event event = { .events = EPOLLIN };
	int set = epoll_create1(0);
	char byte;

	CHECK(set >= 0 && !epoll_ctl(set, EPOLL_CTL_ADD, pipes[kind][0], &event), "epoll_ctl");
	while ((got = epoll_wait(set, &event, 1, -1)) < 0 && errno == EINTR)
		__atomic_fetch_add(&interrupted, 1, __ATOMIC_RELAXED);
	must(kind, got, 1);
	CHECK(read(pipes[kind][0], &byte, 1) == 1, "read");
	close(set);
}

static void sleep_poll(int kind)
{
	struct pollfd one = { .fd = pipes[kind][0], .events = POLLIN };
	char byte;

	must(kind, poll(&one, 1, -1), 1);
	CHECK(read(pipes[kind][0], &byte, 1) == 1, "read");
}

static void sleep_signal(int kind)
{
	struct timespec limit = { 0, NAP_MS * 1000000 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	while (sigtimedwait(&set, NULL, &limit) < 0 && errno == EINTR)
		__atomic_fetch_add(&interrupted, 1, __ATOMIC_RELAXED);
	must(kind, errno, EAGAIN);
}

static void sleep_condition(int kind)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += NAP_MS * 1000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&mutex);
	must(kind, pthread_cond_timedwait(&condition, &mutex, &until), ETIMEDOUT);
	pthread_mutex_unlock(&mutex);
}

static void (*const sleepers[KINDS])(int) = { sleep_read, sleep_futex, sleep_nanosleep, sleep_epoll,
					      sleep_poll, sleep_signal, sleep_condition };

static void *run(void *kind)
{
	while (!done)
		sleepers[(long)kind]((int)(long)kind);
	return NULL;
}

static void feed(void)
{
	for (int kind = 0; kind < KINDS; kind++)
		CHECK(write(pipes[kind][1], "x", 1) == 1, "write");
}

static int all_have_woken(void)
{
	for (int kind = 0; kind < KINDS; kind++)
		if (!wakes[kind])
			return 0;
	return 1;
}

static void one_round(long amount)
{
	pthread_t thread[KINDS];

	done = 0;
	for (int kind = 0; kind < KINDS; kind++)
		wakes[kind] = 0;
	for (long kind = 0; kind < KINDS; kind++) {
		CHECK(!pipe(pipes[kind]), "pipe");
		CHECK(!pthread_create(&thread[kind], NULL, run, (void *)kind), "pthread_create");
	}
	for (long i = 0; i < amount || (!all_have_woken() && i < PATIENCE); i++) {
		usleep(NAP_MS * 1000);
		feed();
	}
	done = 1;
	feed();
	for (int kind = 0; kind < KINDS; kind++) {
		pthread_join(thread[kind], NULL);
		CHECK(wakes[kind] > 0, "sleeper %d never woke", kind);
		close(pipes[kind][0]);
		close(pipes[kind][1]);
	}
	printf("interrupted %ld\n", interrupted);
}

int main(int argc, char **argv)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	return run_rounds(argc, argv, "syscalls", 12, one_round);
}
