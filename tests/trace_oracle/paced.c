/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Does what each line of its input says, and says when it is done: so a test knows what was called between two events.
 *
 *   a N      alpha(), N times; it calls leaf() twice, and beta() once
 *   t N      the same, in a thread of its own
 *   j        left(), which is left by longjmp
 *   o PATH   dlopen(PATH), with RTLD_NOW
 *   z PATH   the same with RTLD_LAZY
 *   p        plugged() of the library opened last
 *   c        dlclose() of it
 *   f N      a N, in a forked child, which then ends
 *   e PROG   executes PROG
 *   x N      ends with status N
 */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile int sum;
static jmp_buf back;
static void *library;

NOINLINE void leaf(void)
{
	sum++;
}

NOINLINE int beta(int n)
{
	leaf();
	return sum + n;
}

NOINLINE int alpha(int n)
{
	leaf();
	leaf();
	return beta(n) + 1;
}

NOINLINE void repeat(int n)
{
	while (n-- > 0)
		sum += alpha(n) & 1;
}

NOINLINE void left(void)
{
	leaf();
	longjmp(back, 1);
}

NOINLINE void around(void)
{
	if (!setjmp(back))
		left();
	leaf();
}

static void *in_thread(void *n)
{
	repeat(*(int *)n);
	return NULL;
}

static void threaded(int n)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, in_thread, &n) || pthread_join(thread, NULL))
		abort();
}

static void open_library(const char *path, int how)
{
	library = dlopen(path, how);
	if (!library)
		abort();
}

static void plug(void)
{
	int (*plugged)(void) = (int (*)(void))dlsym(library, "plugged");

	if (!plugged || plugged() != 42)
		abort();
}

static void forked(int n)
{
	pid_t child = fork();

	if (!child) {
		repeat(n);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void obey(const char *line)
{
	const char *rest = line[1] ? line + 2 : "";

	switch (*line) {
	case 'a': repeat(atoi(rest)); break;
	case 't': threaded(atoi(rest)); break;
	case 'j': around(); break;
	case 'o': open_library(rest, RTLD_NOW); break;
	case 'z': open_library(rest, RTLD_LAZY); break;
	case 'p': plug(); break;
	case 'c': dlclose(library); break;
	case 'f': forked(atoi(rest)); break;
	case 'e': execl(rest, rest, (char *)NULL); abort();
	case 'x': exit(atoi(rest));
	default: abort();
	}
}

int main(void)
{
	char line[4096];

	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = 0;
		obey(line);
		puts("done");
		fflush(stdout);
	}
	return 0;
}
