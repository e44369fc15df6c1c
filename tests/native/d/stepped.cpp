// SPDX-License-Identifier: LGPL-2.1-or-later
// Code for steps.c to step through: each function is one way in which stacks come about.
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <string>
#include <unistd.h>

extern "C" void steps_on(void), steps_off(void);

#define APART __attribute__((noinline, noclone))

static volatile int sink;

APART static int leaf(int x)
{
	return x * 3 + sink;
}

APART static int recursive(int depth)
{
	return depth ? recursive(depth - 1) + 1 : leaf(depth);
}

APART static int on_the_stack(int size)
{
	char *room = static_cast<char *>(__builtin_alloca(size));

	memset(room, 1, 16);
	return leaf(room[3]);
}

APART static int large_frame(int n)
{
	char room[20000];

	room[n] = 1;
	__asm__ volatile("" : : "r"(room) : "memory");
	return leaf(room[n]);
}

APART static int many_registers(int a, int b, int c, int d, int e, int f, int g, int h)
{
	int sum = 0;

	for (int i = 0; i < 2; i++)
		sum += leaf(a) * b + leaf(c) * d + leaf(e) * f + leaf(g) * h;
	return sum;
}

APART static int tail(int x)
{
	return leaf(x + 1);
}

APART static int aligned(int x)
{
	alignas(64) char room[64];

	__asm__ volatile("" : : "r"(room) : "memory");
	return leaf(x) + static_cast<int>(reinterpret_cast<size_t>(room) & 63);
}

APART static int aligned_and_variable(int x)
{
	alignas(64) char room[64];
	char *more = static_cast<char *>(__builtin_alloca(x));

	__asm__ volatile("" : : "r"(room), "r"(more) : "memory");
	return leaf(x);
}

static int by_value(const void *a, const void *b)
{
	return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

APART static void thrower(int x)
{
	if (x)
		throw std::runtime_error("thrown");
}

APART static int exceptions(int x)
{
	try {
		std::string local("something that is longer than what fits into a string by itself");
		thrower(x);
		return static_cast<int>(local.size());
	} catch (const std::exception &error) {
		return leaf(error.what()[0]);
	}
}

static void handler(int)
{
	steps_on();
	sink += leaf(2);
}

APART static void signals()
{
	raise(SIGUSR1);
	kill(getpid(), SIGUSR2);
}

/* Its return address is in a register, of which tables of ours say nothing. */
APART static void longjmp_there(jmp_buf place)
{
	steps_off();
	longjmp(place, leaf(1) | 1);
}

APART static int jumps()
{
	static jmp_buf place;

	if (setjmp(place) == 0)
		longjmp_there(place);
	steps_on();
	return leaf(2);
}

extern "C" void stepped(void)
{
	static char other[1 << 16];
	stack_t stack = {};
	struct sigaction action = {};
	int numbers[] = {3, 1, 4, 1, 5, 9, 2, 6};
	char text[100];
	timespec now;

	stack.ss_sp = other;
	stack.ss_size = sizeof other;
	sigaltstack(&stack, nullptr);
	action.sa_handler = handler;
	sigaction(SIGUSR1, &action, nullptr);
	action.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR2, &action, nullptr);
	steps_on();
	sink += recursive(5) + on_the_stack(1000) + on_the_stack(30000) + large_frame(100);
	sink += many_registers(1, 2, 3, 4, 5, 6, 7, 8) + tail(1) + aligned(1) + aligned_and_variable(100);
	qsort(numbers, 8, sizeof *numbers, by_value);
	snprintf(text, sizeof text, "%d %s %g", numbers[2], "text", 1.5);
	clock_gettime(CLOCK_MONOTONIC, &now);
	sink += static_cast<int>(strlen(text)) + jumps();
	free(realloc(malloc(100), 10000));
	signals();
	sink += exceptions(1) + exceptions(0);
	steps_off();
}
