/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The tiles of AMX are live across calls, and across signals that come while they are; both are checked. */
#include "kind.h"

#include <signal.h>

#include "../tiles.h"

static void handler(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info, (void)context;
	if (!tiles_last(7, 0))
		abort();
}

static void once(void)
{
	long state = 1;

	for (int i = 0; i < CALLS; i++) {
		if (!tiles_last((uint64_t)i, i % 8 ? 0 : SIGUSR1)) {
			puts("a tile is not what it was");
			exit(1);
		}
		state = work(state + i);
	}
	printf("%lx\n", state);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO };

	(void)argv;
	if (!tiles_allowed()) {
		puts("skipped: no AMX");
		return 77;
	}
	sigaction(SIGUSR1, &action, NULL);
	return attend(argc, once);
}
