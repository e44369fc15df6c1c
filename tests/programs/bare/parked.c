/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Two contexts. The first computes; the handler of SIGUSR1 leaves it for the second, which prints a line and waits for a
 * letter. With g it goes back. With s it goes back with the signal pending, which then comes before the first context has
 * executed one instruction. With e the first context ends. Exits with 1 if a result was wrong, and with 77 if it has to use
 * AMX and cannot.
 *
 *   PROGRAM [PLACE [tiles]]    PLACE: see main(); tiles: all tiles of AMX are in use while the first context computes
 */
#include <alloca.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>

#include "computing.h"
#include "tiles.h"

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

static struct tiles before, after;

static int tiles_are_kept(void)
{
	tiles_store(&after);
	tiles_load(&before);
	return !memcmp(&before, &after, sizeof before);
}

__attribute__((noinline, noclone)) static int compute(int uses_tiles)
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
	if (uses_tiles)
		tiles_load(&before);
	while (!over)
		if (work(4000, 1, 2) != expected || (uses_tiles && !tiles_are_kept()))
			return 1;
	return 0;
}

/*
 * Most tests want all registers of a signal frame on one page, and some on two. So the stack goes on where the frame comes
 * to lie a little below PLACE in a page: in the upper part, unless something else is asked for.
 */
int main(int argc, char **argv)
{
	struct sigaction action = { .sa_sigaction = look, .sa_flags = SA_SIGINFO };
	uintptr_t place = argc > 1 ? strtoul(argv[1], NULL, 0) : 3000, here = (uintptr_t)__builtin_frame_address(0);
	volatile char *room = alloca((here & 4095) + 1); /* the next frame comes to lie at the same place in each run */

	if (argc > 2 && !tiles_allowed()) {
		puts("skipped: no AMX");
		return 77;
	}
	*room = 0;
	tiles_fill(&before, 1);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	room = alloca(((saved - place) & 4095) + 1);
	*room = 0;
	return compute(argc > 2);
}
