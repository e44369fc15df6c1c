/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Children, the first of which waits for a child of its own (vfork) until it is told. Letters on standard input: f makes
 * four children, and is answered when all are in place; h lets the first go on, and is answered when it does. At the
 * end of the input all call work() once more and end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIDS 4

static int ready[2], hold[2], stop[2];

__attribute__((noinline, noclone)) long work(long x)
{
	__asm__ volatile("" ::: "memory");
	return x + 1;
}

static void say(void)
{
	if (write(ready[1], ".", 1) != 1)
		_exit(1);
}

static void hear(int fd, int bytes)
{
	char byte;

	while (bytes-- && read(fd, &byte, 1) == 1)
		;
}

static void kid(int first)
{
	close(hold[1]);
	close(stop[1]);
	if (first && !vfork()) {
		say();
		hear(hold[0], 1);
		_exit(0);
	}
	say();
	hear(stop[0], 1);
	_exit((int)work(6));
}

int main(void)
{
	pid_t pids[KIDS] = { 0 };
	int status, bad = 0;

	if (pipe(ready) || pipe(hold) || pipe(stop))
		return 1;
	for (int letter; (letter = getchar()) != EOF;) {
		if (letter == 'f') {
			for (int i = 0; i < KIDS; i++)
				if (!(pids[i] = fork()))
					kid(!i);
			hear(ready[0], KIDS);
		}
		if (letter == 'h') {
			close(hold[1]);
			hear(ready[0], 1);
		}
		printf("%d %d %d %d\n", pids[0], pids[1], pids[2], pids[3]);
		fflush(stdout);
	}
	close(stop[1]);
	for (int i = 0; i < KIDS; i++)
		bad |= waitpid(pids[i], &status, 0) != pids[i] || !WIFEXITED(status) || WEXITSTATUS(status) != 7;
	puts(bad ? "a child did not end well" : "ok");
	return bad;
}
