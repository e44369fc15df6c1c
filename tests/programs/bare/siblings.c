/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Processes that share their memory, but are no threads: clone(2) with CLONE_VM alone, which keeps the thread pointer.
 * So they call nothing of the C library that would write to memory that belongs to a thread.
 *
 * Obeys letters on standard input, and answers each with the letter and the process number of the sibling:
 * s makes one; w has every process call work() 1000 times, all at once; x ends the first process alone. At the end of
 * the input, or when the file FILE exists, all end; it prints "ok" and exits with 0 if all ended well.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST 4
#define CALLS 1000

static volatile int wanted, stop, done[MOST];
static char stacks[MOST][1 << 16] __attribute__((aligned(16)));
static const char *file;
static pid_t pids[MOST];
static int number;

__attribute__((noinline, noclone)) long work(long x)
{
	__asm__ volatile("" ::: "memory");
	return x + 1;
}

static long raw(long call, const void *a, const void *b)
{
	long result;

	__asm__ volatile("syscall" : "=a"(result) : "a"(call), "D"(a), "S"(b) : "rcx", "r11", "memory");
	return result;
}

static void nap(void)
{
	static const struct timespec moment = { .tv_nsec = 200000 };

	raw(SYS_nanosleep, &moment, NULL);
}

static void call(void)
{
	for (long i = 0; i < CALLS; i++)
		work(i);
}

static int sibling(void *own)
{
	volatile int *mine = own;

	while (!stop && raw(SYS_access, file, (void *)F_OK)) {
		if (*mine != wanted) {
			call();
			*mine = wanted;
		}
		nap();
	}
	raw(SYS_exit, (void *)7, NULL);
	return 0;
}

static void everybody(void)
{
	wanted++;
	call();
	for (int i = 0; i < number; i++)
		while (done[i] != wanted)
			nap();
}

static void make(void)
{
	done[number] = wanted;
	pids[number] = clone(sibling, stacks[number] + sizeof stacks[0], CLONE_VM | SIGCHLD, (void *)&done[number]);
	number++;
}

int main(int argc, char **argv)
{
	int status, bad = 0;

	file = argc > 1 ? argv[1] : "";
	for (int letter; (letter = getchar()) != EOF;) {
		if (letter == 's' && number < MOST)
			make();
		if (letter == 'w')
			everybody();
		if (letter == 'x')
			_exit(0);
		printf("%c %d\n", letter, number ? pids[number - 1] : 0);
		fflush(stdout);
	}
	stop = 1;
	for (int i = 0; i < number; i++)
		bad |= waitpid(pids[i], &status, 0) != pids[i] || !WIFEXITED(status) || WEXITSTATUS(status) != 7;
	puts(bad ? "a sibling did not end well" : "ok");
	return bad;
}
