/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Threads on the smallest stack there may be, with a guard below, and handlers on the smallest signal stack. */
#include "check.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>

/* The room below the frames of start-up and a signal, in which a patch must fit. */
enum { TEN = 10, PAGE = 4096 };

static volatile sig_atomic_t handled;

NOINLINE long nest(long depth);
NOINLINE long nest(long depth)
{
	volatile long here = depth;

	if (depth == 0)
		return 1;
	long below = nest(depth - 1);

	BARRIER();
	return below + here;
}

static void on_signal(int number)
{
	handled += number == SIGUSR1 && nest(4) == 11;
}

static void *run(void *amount)
{
	long sum = 0;

	for (long i = 0; i < (long)amount; i++)
		sum += nest(TEN);
	return (void *)sum;
}

static void check_thread(long amount)
{
	size_t size = (size_t)sysconf(_SC_THREAD_STACK_MIN), mapped = size + PAGE;
	char *memory = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attributes;
	pthread_t thread;
	void *sum;

	CHECK(memory != MAP_FAILED && !mprotect(memory, PAGE, PROT_NONE), "mmap");
	pthread_attr_init(&attributes);
	CHECK(!pthread_attr_setstack(&attributes, memory + PAGE, size), "pthread_attr_setstack(%zu)", size);
	CHECK(!pthread_create(&thread, &attributes, run, (void *)amount), "pthread_create");
	CHECK(!pthread_join(thread, &sum) && (long)sum == amount * 56, "a thread sums %ld", (long)sum);
	pthread_attr_destroy(&attributes);
	munmap(memory, mapped);
}

static void check_signal_stack(void)
{
	size_t size = getauxval(AT_MINSIGSTKSZ) + 1024, mapped = (size + PAGE - 1) / PAGE * PAGE;
	char *memory = mmap(NULL, mapped + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t stack = { .ss_sp = memory + PAGE + mapped - size, .ss_size = size }, none = { .ss_flags = SS_DISABLE };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };

	handled = 0;
	CHECK(memory != MAP_FAILED && !mprotect(memory, PAGE, PROT_NONE), "mmap");
	CHECK(!sigaltstack(&stack, NULL) && !sigaction(SIGUSR1, &action, NULL), "sigaltstack(%zu)", size);
	for (int i = 0; i < TEN; i++)
		raise(SIGUSR1);
	CHECK(handled == TEN, "%d signals handled", handled);
	sigaltstack(&none, NULL);
	munmap(memory, mapped + PAGE);
}

static void one_round(long amount)
{
	for (int i = 0; i < TEN; i++)
		check_thread(amount);
	check_signal_stack();
}

int main(int argc, char **argv)
{
	return run_rounds(argc, argv, "smallstack", 500, one_round);
}
