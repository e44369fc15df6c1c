/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Children of fork do the same work as their parent, at the same time, and report it by exit status and pipe. */
#include "check.h"

#include <sys/wait.h>

enum { TURNS = 50 };

NOINLINE uint64_t hot(uint64_t x);
NOINLINE uint64_t hot(uint64_t x)
{
	for (int i = 0; i < 20; i++)
		x = x & 1 ? x * 5 + 1 : x >> 1;
	BARRIER();
	return x;
}

static uint64_t work(long turns)
{
	uint64_t sum = 0;

	for (long i = 0; i < turns; i++)
		sum += hot((uint64_t)i);
	return sum;
}

__attribute__((noreturn)) static void child(int out)
{
	uint64_t sum = work(TURNS);

	_exit(write(out, &sum, sizeof sum) == sizeof sum ? 7 : 1);
}

static void one_round(long amount)
{
	uint64_t expected = work(TURNS), got;

	for (long i = 0; i < amount; i++) {
		int ends[2], status;
		pid_t pid;

		fflush(stdout);
		CHECK(!pipe(ends), "pipe");
		pid = fork();
		CHECK(pid >= 0, "fork");
		if (!pid)
			child(ends[1]);
		CHECK(work(TURNS) == expected, "the parent's work is wrong");
		CHECK(read(ends[0], &got, sizeof got) == sizeof got && got == expected, "the child's work is wrong");
		CHECK(waitpid(pid, &status, 0) == pid, "waitpid");
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7, "child %ld ended with %#x", i, status);
		close(ends[0]);
		close(ends[1]);
	}
}

int main(int argc, char **argv)
{
	return run_rounds(argc, argv, "fork", 20, one_round);
}
