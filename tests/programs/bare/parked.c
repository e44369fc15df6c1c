/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Two contexts. The first computes; the handler of SIGUSR1 leaves it for the second, which prints a line and waits for a
 * letter. With g it goes back. With s it goes back with the signal pending, which then comes before the first context has
 * executed one instruction. With e the first context ends. Exits with 1 if a result was wrong.
 */
#include <alloca.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>

#include "computing.h"

static ucontext_t first, second;
static char stack[128 << 10];
static volatile int over;

__attribute__((noinline, noclone)) static char ask(void)
{
	char letter = 'e';

	if (write(STDOUT_FILENO, "parked\n", 7) != 7 || read(STDIN_FILENO, &letter, 1) != 1)
		_exit(2);
	return letter;
}

static void wait_for_letters(void)
{
	for (;;) {
		char letter = ask();

		over = letter == 'e';
		if (letter == 's')
			raise(SIGUSR1);
		swapcontext(&second, &first);
	}
}

static void leave(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info, (void)context;
	swapcontext(&first, &second);
}

static volatile uintptr_t saved; /* the address of the registers in the last signal frame */

static void look(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	saved = (uintptr_t)&((ucontext_t *)context)->uc_mcontext;
}

__attribute__((noinline, noclone)) static int compute(void)
{
	struct sigaction action = { .sa_sigaction = leave, .sa_flags = SA_SIGINFO };
	unsigned long expected = work(4000, 1, 2);
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	getcontext(&second);
	second.uc_stack.ss_sp = stack;
	second.uc_stack.ss_size = sizeof stack;
	makecontext(&second, wait_for_letters, 0);
	sigaction(SIGUSR1, &action, NULL);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	printf("ready\n");
	fflush(stdout);
	while (!over)
		if (work(4000, 1, 2) != expected)
			return 1;
	return 0;
}

/*
 * gilk rewrites no signal frame whose registers lie on two pages (docs/limits.md). So the stack goes on where all of them
 * come to lie on one, wherever the kernel has put it: in the upper part of a page, for functions that need some stack.
 */
int main(void)
{
	struct sigaction action = { .sa_sigaction = look, .sa_flags = SA_SIGINFO };
	volatile char *room;

	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	room = alloca(((saved - 3000) & 4095) + 1);
	*room = 0;
	return compute();
}
