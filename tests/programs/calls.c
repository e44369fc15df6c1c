/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Makes system calls in known numbers and in awkward places: through libc's wrappers and through syscall(), with errors,
 * from threads, from a handler that interrupts a waiting call, from a forked child. It prints the numbers:
 *   getppid N through syscall M close of nothing C interrupted I handled H
 */
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

enum { THREADS = 4 };
static long plain, through, failed, interrupted;
static volatile long handled;
static int pipes[2];

static void handler(int number)
{
	(void)number;
	handled++;
	CHECK(syscall(SYS_getpgid, 0) == getpgrp(), "getpgid in a handler");
}

/* Waits through syscall() until a signal ends that; the handler makes a system call in the same way. */
static void wait_interrupted(void)
{
	struct itimerval soon = { { 0, 20000 }, { 0, 2000 } }, never = { 0 };
	char byte;

	setitimer(ITIMER_REAL, &soon, NULL);
	CHECK(syscall(SYS_read, pipes[0], &byte, 1) == -1 && errno == EINTR, "a read was not interrupted: %m");
	setitimer(ITIMER_REAL, &never, NULL);
	interrupted++;
}

static void *work(void *given)
{
	long amount = *(long *)given;

	for (long i = 0; i < amount; i++) {
		getppid();
		syscall(SYS_getppid);
		CHECK(close(-1) == -1 && errno == EBADF, "close(-1)");
	}
	__atomic_add_fetch(&plain, amount, __ATOMIC_RELAXED);
	__atomic_add_fetch(&through, amount, __ATOMIC_RELAXED);
	__atomic_add_fetch(&failed, amount, __ATOMIC_RELAXED);
	return NULL;
}

static void in_child(void)
{
	int status;
	pid_t child = fork();

	if (!child)
		_exit(syscall(SYS_getppid) == getppid() ? 7 : 8);
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7, "the child");
}

static void one_round(long amount)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, &amount), "pthread_create");
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 5; i++)
		wait_interrupted();
	in_child();
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = handler };

	CHECK(!pipe(pipes) && !sigaction(SIGALRM, &action, NULL), "pipe, sigaction");
	if (argc == 2 && strcmp(argv[1], "loop")) {
		one_round(atol(argv[1]));
		printf("getppid %ld through syscall %ld close of nothing %ld interrupted %ld handled %ld\n", plain, through,
		       failed, interrupted, handled);
		return 0;
	}
	return run_rounds(argc, argv, "calls", 50, one_round);
}
