/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* vfork: the child borrows its parent's memory and stack until it execs or exits. */
#include "check.h"

#include <sys/wait.h>

static volatile long shared;

NOINLINE long hot(long x);
NOINLINE long hot(long x)
{
	if (x & 1)
		x += 3;
	for (int i = 0; i < 5; i++)
		x ^= x << 1;
	BARRIER();
	return x;
}

static int wait_for(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status), "the child did not exit: %#x", status);
	return WEXITSTATUS(status);
}

NOINLINE int run_self(const char *code);
NOINLINE int run_self(const char *code)
{
	char *arguments[] = { (char *)"vfork", (char *)"exit", (char *)code, NULL };
	pid_t pid = vfork();

	CHECK(pid >= 0, "vfork");
	if (!pid) {
		hot(3);
		execv("/proc/self/exe", arguments);
		_exit(127);
	}
	return wait_for(pid);
}

NOINLINE int run_brief(long x);
NOINLINE int run_brief(long x)
{
	pid_t pid = vfork();

	CHECK(pid >= 0, "vfork");
	if (!pid) {
		shared = hot(x);
		_exit(5);
	}
	return wait_for(pid);
}

static void one_round(long amount)
{
	for (long i = 0; i < amount; i++) {
		char code[8];

		snprintf(code, sizeof code, "%ld", i % 100);
		CHECK(run_self(code) == i % 100, "vfork and exec");
		shared = -1;
		CHECK(run_brief(i) == 5, "vfork and exit");
		CHECK(shared == hot(i), "the child's store is not seen");
	}
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "exit"))
		return atoi(argv[2]);
	return run_rounds(argc, argv, "vfork", 20, one_round);
}
