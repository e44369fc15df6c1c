/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Stacks of all kinds below one function, `note`, which is called with the number of the kind.
 *
 *   stacks       calls note() on each kind once
 *   stacks late  calls it for ever on one kind; after a hundred calls it opens a library, and calls through that
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>

#define APART __attribute__((noinline, noclone))

static volatile int sink;

APART void note(int kind)
{
	sink += kind;
	__asm__ volatile("" : : : "memory");
}

APART static void recursive(int depth)
{
	if (depth)
		recursive(depth - 1);
	else
		note(1);
	sink++;
}

APART static void on_the_stack(size_t size)
{
	char *room = __builtin_alloca(size);

	memset(room, 1, size);
	note(2 + room[size / 2] - 1);
	sink++;
}

static void handler(int number)
{
	note(number == SIGUSR1 ? 3 : 4);
	sink++;
}

APART static void signalled(int number)
{
	raise(number);
	sink++;
}

static int by_value(const void *a, const void *b)
{
	note(5);
	return *(const int *)a - *(const int *)b;
}

APART static int tail(int kind)
{
	sink++;
	note(kind);
	return 0;
}

APART static int jumps_on(int kind)
{
	sink++;
	return tail(kind);
}

APART __attribute__((noreturn)) static void does_not_return(void)
{
	note(8);
	exit(0);
}

static void *thread(void *unused)
{
	note(7);
	sink++;
	return unused;
}

static void in_a_thread(void)
{
	pthread_t other;

	pthread_create(&other, 0, thread, 0);
	pthread_join(other, 0);
}

static void on_another_stack(void)
{
	static char other[1 << 16];
	stack_t stack = {.ss_sp = other, .ss_size = sizeof other};
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};

	sigaltstack(&stack, 0);
	sigaction(SIGUSR2, &action, 0);
	signalled(SIGUSR2);
}

static _Unwind_Reason_Code at_a_frame(struct _Unwind_Context *context, void *unused)
{
	(void)context;
	(void)unused;
	note(9);
	return _URC_END_OF_STACK;
}

APART static void late(void)
{
	_Unwind_Reason_Code (*trace)(_Unwind_Trace_Fn, void *) = 0;
	void *library;
	int n;

	for (n = 0;; n++) {
		if (n == 100) {
			library = dlopen("libgcc_s.so.1", RTLD_NOW);
			*(void **)&trace = library ? dlsym(library, "_Unwind_Backtrace") : 0;
		}
		if (trace)
			trace(at_a_frame, 0);
		else
			note(10);
		usleep(1000);
	}
}

int main(int argc, char **argv)
{
	int numbers[] = {2, 1};

	if (argc > 1 && !strcmp(argv[1], "late"))
		late();
	recursive(3);
	on_the_stack(100);
	on_the_stack(30000);
	signal(SIGUSR1, handler);
	signalled(SIGUSR1);
	on_another_stack();
	qsort(numbers, 2, sizeof *numbers, by_value);
	jumps_on(6);
	in_a_thread();
	does_not_return();
}
