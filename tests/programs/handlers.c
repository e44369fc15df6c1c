/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Handlers that do whatever handlers may do, at any instruction of threads that compute: they raise other signals,
 * leave by siglongjmp(), wait for another signal, fork, and run on stacks that change. What is computed must be right
 * all the same.
 */
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { THREADS = 3, SIGNALS_A_TURN = 4, STEPS = 600, STACK = 64 << 10, DEEDS = 6 };
enum { RETURNS, RAISES, JUMPS, WAITS, FORKS, COMPUTES };

struct worker {
	pthread_t thread;
	sigjmp_buf start;
	volatile int may_jump, nested;
	volatile long done, sent;
	unsigned random;
	char *stacks[2];
};

static struct worker workers[THREADS];
static __thread struct worker *self;
static uint64_t expected;
static volatile int over;
static volatile long wanted, deeds[DEEDS];

NOINLINE static uint64_t step(uint64_t a, uint64_t b)
{
	return a & 1 ? a * 3 + b : a / 2 + b;
}

NOINLINE static uint64_t hot(int n, uint64_t a, uint64_t b)
{
	for (int i = 0; i < n; i++) {
		a = step(a, b);
		b ^= a << 3;
	}
	return a ^ b;
}

static unsigned any(unsigned below)
{
	self->random = self->random * 1103515245 + 12345;
	return (self->random >> 16) % below;
}

static void wait_in_the_handler(void)
{
	struct timespec little = { 0, 50000 };
	sigset_t usual;

	sigemptyset(&usual);
	while (!over && any(3) && ppoll(NULL, 0, &little, &usual) < 0)
		;
}

static void fork_in_the_handler(void)
{
	pid_t child;
	int status;

	if (any(50)) /* a fork takes as long as a thousand signals */
		return;
	child = (pid_t)syscall(SYS_fork);
	if (!child)
		syscall(SYS_exit_group, hot(STEPS, 1, 2) == expected ? 7 : 8);
	CHECK(child > 0, "fork: %d", errno);
	while (waitpid(child, &status, 0) < 0)
		CHECK(errno == EINTR, "waitpid: %d", errno);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7, "a child ended with %#x", (unsigned)status);
}

static void on_signal(int number, siginfo_t *info, void *raw)
{
	int kept = errno, deed = (int)any(DEEDS);

	(void)info, (void)raw;
	if (deed == JUMPS && (self->nested || !self->may_jump))
		deed = RETURNS; /* for another handler, or the loop, is in the midst of something */
	self->nested++;
	__atomic_fetch_add(&deeds[deed], 1, __ATOMIC_RELAXED);
	if (deed == RAISES && number == SIGUSR1)
		CHECK(!syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR2), "tgkill");
	else if (deed == JUMPS)
		siglongjmp(self->start, 1);
	else if (deed == WAITS)
		wait_in_the_handler();
	else if (deed == FORKS)
		fork_in_the_handler();
	else if (deed == COMPUTES)
		CHECK(hot(STEPS, 1, 2) == expected, "a handler computed something else");
	self->nested--;
	errno = kept;
}

/* The other stack of the thread, for handlers of SIGUSR2, from now on. Fails while the thread is on one of them. */
static void change_stack(void)
{
	stack_t other = { .ss_sp = self->stacks[any(2)], .ss_size = STACK };

	if (any(8) == 0)
		other.ss_flags = SS_DISABLE;
	CHECK(!sigaltstack(&other, NULL), "sigaltstack: %d", errno);
}

static void hold(int how)
{
	sigset_t both;

	sigemptyset(&both);
	sigaddset(&both, SIGUSR1);
	sigaddset(&both, SIGUSR2);
	CHECK(!pthread_sigmask(how, &both, NULL), "pthread_sigmask");
}

static void *work(void *given)
{
	self = given;
	hold(SIG_UNBLOCK);
	sigsetjmp(self->start, 1);
	self->may_jump = self->nested = 0;
	while (!over) {
		uint64_t found;

		change_stack();
		self->may_jump = 1;
		found = hot(STEPS, 1, 2);
		self->may_jump = 0;
		CHECK(found == expected, "a thread computed %#lx", (unsigned long)found);
		self->done++;
	}
	return NULL;
}

static int all_done(void)
{
	for (int i = 0; i < THREADS; i++)
		if (workers[i].done < wanted)
			return 0;
	for (int i = 0; i < DEEDS; i++)
		if (!deeds[i])
			return 0;
	return 1;
}

static void begin(struct worker *worker, unsigned seed)
{
	worker->done = worker->sent = 0;
	worker->random = seed;
	for (int i = 0; i < 2; i++)
		if (!worker->stacks[i])
			CHECK((worker->stacks[i] = malloc(STACK)), "malloc");
	CHECK(!pthread_create(&worker->thread, NULL, work, worker), "pthread_create");
}

/* Send a signal, unless the thread has got its share: handlers that jump would else keep a slow one from its work. */
static void disturb(struct worker *worker)
{
	if (worker->sent > SIGNALS_A_TURN * worker->done)
		return;
	worker->sent++;
	CHECK(!pthread_kill(worker->thread, worker->sent % 5 ? SIGUSR1 : SIGUSR2), "pthread_kill");
}

static void one_round(long amount)
{
	static unsigned seed = 1;

	expected = hot(STEPS, 1, 2);
	over = 0;
	wanted = amount;
	for (int i = 0; i < DEEDS; i++)
		deeds[i] = 0;
	for (int i = 0; i < THREADS; i++)
		begin(&workers[i], seed++);
	for (int i = 0; !all_done(); i++) {
		struct timespec little = { 0, i % 7 * 5000 };

		disturb(&workers[i % THREADS]);
		nanosleep(&little, NULL);
	}
	over = 1;
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(workers[i].thread, NULL), "pthread_join");
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART };

	hold(SIG_BLOCK); /* until a thread knows which one it is */
	CHECK(!sigaction(SIGUSR1, &action, NULL), "sigaction");
	action.sa_flags |= SA_ONSTACK;
	CHECK(!sigaction(SIGUSR2, &action, NULL), "sigaction");
	return run_rounds(argc, argv, "handlers", 200, one_round);
}
