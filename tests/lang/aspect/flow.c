// SPDX-License-Identifier: LGPL-2.1-or-later
// Functions that call each other at random and jump out. Each call is told with the stack that there really is.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#define QUIET __attribute__((no_instrument_function))
#define LINES 2000

static struct {
	jmp_buf to;
	int depth;
} marks[64];
static int marked, depth, jumps, lines;

QUIET static void told(void)
{
	if (++lines == LINES) {
		fprintf(stderr, "%d\n", jumps);
		exit(0);
	}
}

QUIET static const char *name(void *at)
{
	Dl_info info;

	return dladdr(at, &info) && info.dli_sname ? info.dli_sname : "?";
}

QUIET void __cyg_profile_func_enter(void *function, void *caller)
{
	void *stack[256];
	int count = backtrace(stack, 256);

	depth++;
	printf("call %s", name(function));
	for (int i = count - 1; i > 0; i--)
		printf(" %s", name(stack[i]));
	printf("\n");
	told();
}

QUIET void __cyg_profile_func_exit(void *function, void *caller)
{
	depth--;
	printf("return %s\n", name(function));
	told();
}

QUIET static unsigned chance(unsigned below)
{
	static unsigned long state = SEED;

	state = state * 6364136223846793005ul + 1442695040888963407ul;
	return (state >> 33) % below;
}

QUIET static void jump(int to)
{
	if (marks[to].depth >= depth)
		return;
	printf("unwind %d\n", depth - marks[to].depth);
	told();
	depth = marks[to].depth;
	marked = to + 1;
	jumps++;
	longjmp(marks[to].to, 1);
}

void zoo(int), foo(int), bar(int), homer(int);

QUIET static void further(int left)
{
	void (*all[])(int) = {zoo, foo, bar, homer};

	for (unsigned n = chance(3) + (left > 5); left > 0 && n > 0; n--) {
		if (marked && chance(9) == 0)
			jump(chance(marked));
		all[chance(4)](left - 1);
	}
}

#define FUNCTION(f)                                     \
	void f(int left)                                \
	{                                               \
		volatile int own = 0;                   \
		if (chance(3) == 0 && marked < 60) {    \
			own = marked + 1;               \
			marks[marked++].depth = depth;  \
			setjmp(marks[own - 1].to);      \
		}                                       \
		further(left);                          \
		if (own)                                \
			marked = own - 1;               \
	}
FUNCTION(zoo)
FUNCTION(foo)
FUNCTION(bar)
FUNCTION(homer)

int main(void)
{
	for (;;) {
		zoo(8);
		homer(7);
	}
}
