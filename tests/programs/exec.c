/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Execs itself again and again, a sum carried along in its arguments; the last one checks the sum.
 * Every image calls hot() the same number of times. "loop" execs until standard input closes.
 */
#include "check.h"

#include <pthread.h>

enum { CALLS = 100 };

NOINLINE unsigned hot(unsigned x);
NOINLINE unsigned hot(unsigned x)
{
	if (x % 3 == 0)
		x += 7;
	for (unsigned i = 0; i < (x & 3); i++)
		x = x * 17 + i;
	BARRIER();
	return x & 0xff;
}

static unsigned work(void)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < CALLS; i++)
		sum += hot(i);
	return sum;
}

static void exec_again(const char *mode, long left, unsigned sum)
{
	char left_text[24], sum_text[24];
	char *arguments[] = { (char *)"exec", (char *)mode, left_text, sum_text, NULL };

	snprintf(left_text, sizeof left_text, "%ld", left);
	snprintf(sum_text, sizeof sum_text, "%u", sum);
	execv("/proc/self/exe", arguments);
	CHECK(0, "execv");
}

static void *exec_from_thread(void *mode)
{
	exec_again(mode, 5, 0);
	return NULL;
}

static void start(const char *mode, long times)
{
	pthread_t thread;

	if (times)
		exec_again(mode, times, 0);
	/* exec from another thread than the first: it takes over the process id. */
	pthread_create(&thread, NULL, exec_from_thread, (void *)mode);
	for (;;)
		pause();
}

static int carry_on(const char *mode, long left, unsigned sum)
{
	unsigned mine = work();

	if (!strcmp(mode, "loop") && !input_closed())
		exec_again(mode, 1, mine);
	if (left > 1)
		exec_again(mode, left - 1, sum + mine);
	CHECK((sum + mine) % mine == 0, "the sum is %u", sum + mine);
	puts("ok exec");
	return 0;
}

int main(int argc, char **argv)
{
	check_name = "exec";
	if (argc > 3)
		return carry_on(argv[1], atol(argv[2]), (unsigned)atol(argv[3]));
	if (argc > 1 && !strcmp(argv[1], "loop")) {
		puts("ready");
		fflush(stdout);
		start("loop", 1);
	}
	start("count", argc > 1 ? atol(argv[1]) : 5);
	return 1;
}
