/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Computes. The handler of SIGUSR1 returns, and its frame stays on the alternate signal stack, where nothing else is
 * written. At the letter l a signal comes, outside the computation, whose handler is left by a jump. Each handler prints
 * a line. Ends at any other letter; exits with 1 if a result was wrong.
 */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "computing.h"

static char stack[128 << 10];
static sigjmp_buf before;

static void say(const char *line, size_t length)
{
	if (write(STDOUT_FILENO, line, length) != (ssize_t)length)
		_exit(2);
}

static void come_back(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info, (void)context;
	say("returns\n", 8);
}

static void leave(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info, (void)context;
	say("leaves\n", 7);
	siglongjmp(before, 1);
}

/* The next letter of the input, or 0 if there is none yet; e at the end of the input. */
static char letter(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	char found = 0;

	if (poll(&input, 1, 0) > 0 && read(STDIN_FILENO, &found, 1) != 1)
		return 'e';
	return found;
}

int main(void)
{
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof stack };
	struct sigaction returning = { .sa_sigaction = come_back, .sa_flags = SA_SIGINFO | SA_ONSTACK };
	struct sigaction leaving = { .sa_sigaction = leave, .sa_flags = SA_SIGINFO };
	unsigned long expected = work(4000, 1, 2);

	sigaltstack(&alternate, NULL);
	sigaction(SIGUSR1, &returning, NULL);
	if (!sigsetjmp(before, 1)) {
		sigaction(SIGUSR2, &leaving, NULL);
		say("ready\n", 6);
	}
	for (char found; !(found = letter()) || found == 'l';) {
		if (found)
			raise(SIGUSR2);
		for (int i = 0; i < 100; i++)
			if (work(4000, 1, 2) != expected)
				return 1;
	}
	return 0;
}
