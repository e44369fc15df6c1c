/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Has as many threads as its first argument says, and has another one execute it again: with "once" when there is
 * input, with "loop" as often as it can until its input ends. Says "ready" in its first life, and "executed" at the end.
 */
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char **words;
static int loops, life;

static int has_input(int patience)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };

	return poll(&input, 1, patience) > 0;
}

static void *rest(void *none)
{
	for (;;)
		pause();
	return none;
}

static void *execute(void *none)
{
	char next[16];
	char *again[] = { words[0], words[1], words[2], next, NULL };
	struct timespec moment = { 0, 200000 + (life * 7919L) % 1000000 };

	snprintf(next, sizeof next, "%d", life + 1);
	if (loops)
		nanosleep(&moment, NULL);
	else
		has_input(-1);
	execv("/proc/self/exe", again);
	_exit(2);
	return none;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	words = argv;
	if (argc < 3)
		return 1;
	loops = !strcmp(argv[2], "loop");
	life = argc > 3 ? atoi(argv[3]) : 0;
	if (life && (!loops || has_input(0))) {
		puts("executed");
		fflush(stdout);
		while (getchar() != EOF)
			;
		return 0;
	}
	for (int i = atoi(argv[1]); i > 0; i--)
		if (pthread_create(&thread, NULL, rest, NULL))
			return 3;
	pthread_create(&thread, NULL, execute, NULL);
	if (!life) {
		puts("ready");
		fflush(stdout);
	}
	rest(NULL);
}
