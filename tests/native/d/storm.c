/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Many who work on one memory at once.
 *
 *     storm FD threads WHAT THREADS COUNT   each thread does COUNT operations, and has
 *                                           a timer whose signals do more of them
 *     storm FD step WHAT STRIDE LEAVE       an operation is interrupted before each of its
 *                                           instructions in turn, or each STRIDEth, by a handler that does another;
 *                                           LEAVE 1: and is then left for ever
 *     storm FD fork WHAT COUNT              a process that dies of SIGKILL in the midst of it, COUNT times
 *     storm FD time WHAT COUNT              ns for each
 *
 * Prints how many operations there were: those done, and those left.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include "runtime/d/d.h"

static gd_u8 *memory;
static struct gd_layout layout;
static __thread gd_u64 serial[2]; /* of the loop, of the handler */
static __thread gd_u32 self;
static gd_u64 wrong;
static int threads;

static const gd_u64 edges[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100};

static void begin(struct gd_context *ctx, struct gd_event *event)
{
	event->time = host_clock();
	event->cpu = (gd_u32)self & 1;
	event->tid = self;
	event->pid = (gd_u32)getpid();
	event->thread = self;
	gd_begin(ctx, memory, &layout, event);
}

/* Number 1 without keys; 2 keyed by one of 64; the rest by one of 4. */
static void aggregate(struct gd_context *ctx, gd_u64 n)
{
	gd_u64 key[2] = {n % 64, 0}, few[1] = {n % 4};

	gd_count(ctx, 1, 0, 0);
	gd_count(ctx, 2, key, 16);
	gd_sum(ctx, 3, few, 8, (gd_s64)(n % 100) - 50);
	gd_min(ctx, 4, few, 8, -(gd_s64)n);
	gd_max(ctx, 5, few, 8, (gd_s64)n);
	gd_avg(ctx, 6, few, 8, (gd_s64)n);
	gd_stddev(ctx, 7, few, 8, (gd_s64)(n << 33));
	gd_quantize(ctx, 8, few, 8, (gd_s64)n, 1);
	gd_lquantize(ctx, 9, few, 8, (gd_s64)(n % 120), 0, 100, 10, 1);
	gd_llquantize(ctx, 10, few, 8, (gd_s64)(n % 120), edges, 19, 1);
}

/* Ever new keys, so that inserts race. */
static void insert(struct gd_context *ctx, gd_u64 n)
{
	gd_u64 key[1] = {n};

	gd_count(ctx, 2, key, 8);
}

/* 16 to 112 bytes: the serial number, and more of the same. */
static void record(struct gd_context *ctx, gd_u64 n, int source)
{
	gd_u64 words = 2 + n % 13, i;

	if (!gd_reserve(ctx, 1 + (gd_u32)source, (gd_u32)words * 8))
		return;
	for (i = 0; i < words; i++)
		((gd_u64 *)ctx->data)[i] = n;
	if (n % 16 == 5)
		gd_discard(ctx);
}

static void keep(struct gd_context *ctx, gd_u64 n, int source)
{
	gd_u64 id = gd_speculation(ctx);

	gd_speculate(ctx, id ? id : 1 + n % layout.speculations);
	record(ctx, n, source);
	gd_commit(ctx);
	if (n & 1)
		gd_commit_speculation(ctx, id);
	else
		gd_discard_speculation(ctx, id);
}

/* All that is stored under a key says so: a value of another key would show. */
static void churn(struct gd_context *ctx, gd_u64 n)
{
	gd_u64 key[2] = {n * 7 % 40, 5}, value[4], i;
	gd_u32 variable = n % 3 ? 1 : 2 | GD_SELF;
	gd_u64 mark = key[0] << 32 | variable;

	if (gd_dynamic_load(ctx, variable, key, 16, value, 32))
		for (i = 0; i < 4; i++)
			if (value[i] >> 8 != (mark << 1 | 1))
				__atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
	for (i = 0; i < 4; i++)
		value[i] = (mark << 1 | 1) << 8 | (n & 0xff);
	gd_dynamic_store(ctx, variable, key, 16, value, 32);
	if (n % 5 != 1)
		gd_dynamic_delete(ctx, variable, key, 16);
}

static void store(struct gd_context *ctx, gd_u64 n)
{
	gd_u64 key[1] = {3}, value[1] = {n};

	gd_dynamic_store(ctx, 1, key, 8, value, 8);
}

static void replace(struct gd_context *ctx, gd_u64 n)
{
	gd_u64 key[1] = {3};

	gd_dynamic_delete(ctx, 1, key, 8);
	store(ctx, n);
}

#define TRAP 0x100

static void trap(int on)
{
	if (on)
		__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" : : : "memory", "cc");
	else
		__asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" : : : "memory", "cc");
}

static void put(struct gd_context *ctx, gd_u64 key)
{
	gd_u64 value[4] = {key, key, key, key};

	gd_dynamic_store(ctx, 1, &key, 8, value, 32);
}

static void check(struct gd_context *ctx, gd_u64 key)
{
	gd_u64 value[4], i;

	if (gd_dynamic_load(ctx, 1, &key, 8, value, 32))
		for (i = 0; i < 4; i++)
			wrong += value[i] != key;
}

/* In a memory with two slots: what was 10's becomes 20's or 30's. */
static void usurp(struct gd_context *ctx)
{
	gd_u64 key = 10;

	gd_dynamic_delete(ctx, 1, &key, 8);
	put(ctx, 20);
	put(ctx, 30);
}

static void suffer(struct gd_context *ctx, bool writing)
{
	gd_u64 keys[2] = {20, 30};

	gd_dynamic_delete(ctx, 1, &keys[0], 8);
	gd_dynamic_delete(ctx, 1, &keys[1], 8);
	put(ctx, 10);
	if (writing)
		put(ctx, 10);
	check(ctx, 10);
	check(ctx, 20);
	check(ctx, 30);
}

static gd_u64 *extreme_cells(struct gd_context *ctx)
{
	return gd_cells(gd_keyless_entry(ctx, 5, 2), 0);
}

static gd_u64 seen_at_clear;

/* As the consumer's clear(). */
static void clear(struct gd_context *ctx)
{
	gd_u32 *generation = (gd_u32 *)(memory + layout.generations) + 5;
	gd_u64 *cells = extreme_cells(ctx);

	cells[(*generation + 1) & 1] = 0;
	*(volatile gd_u32 *)generation += 1;
	seen_at_clear = cells[(*generation + 1) & 1];
}

static void maximise(struct gd_context *ctx, gd_u64 n)
{
	gd_u64 *cells = extreme_cells(ctx);

	seen_at_clear = 0;
	gd_max(ctx, 5, 0, 0, (gd_s64)n);
	trap(0); /* or what is looked at here changes meanwhile */
	if (seen_at_clear != (n ^ GD_MAX_FLIP) && cells[gd_generation(ctx, 5) & 1] != (n ^ GD_MAX_FLIP))
		wrong++;
}

static void act(const char *what, int source)
{
	struct gd_context ctx;
	struct gd_event event;
	gd_u64 n = serial[source]++;

	begin(&ctx, &event);
	switch (what[0]) {
	case 'a':
		aggregate(&ctx, n);
		break;
	case 'i':
		insert(&ctx, n);
		break;
	case 'r':
		record(&ctx, n, source);
		break;
	case 'k':
		keep(&ctx, n, source);
		break;
	case 'c':
		churn(&ctx, n);
		break;
	case 's':
		store(&ctx, n);
		break;
	case 'd':
		replace(&ctx, n);
		break;
	case 'u':
		usurp(&ctx);
		break;
	case 'l':
	case 'w':
		suffer(&ctx, what[0] == 'w');
		break;
	case 'e':
		clear(&ctx);
		break;
	case 'm':
		maximise(&ctx, n);
		break;
	}
	gd_end(&ctx);
}

static const char *work;
static long count;
static pthread_barrier_t started;
static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;

static void on_timer(int number)
{
	(void)number;
	act(work, 1);
}

static void *thread(void *argument)
{
	struct sigevent how = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
	struct itimerspec often = {{0, 30000}, {0, 30000}};
	timer_t timer;
	long n;

	(void)argument;
	self = (gd_u32)syscall(SYS_gettid);
	how._sigev_un._tid = (int)self;
	pthread_barrier_wait(&started);
	timer_create(CLOCK_MONOTONIC, &how, &timer);
	timer_settime(timer, 0, &often, 0);
	for (n = 0; n < count; n++)
		act(work, 0);
	timer_delete(timer);
	signal(SIGUSR1, SIG_IGN);
	pthread_mutex_lock(&printing);
	printf("%u %lu %lu\n", self, serial[0], serial[1]);
	pthread_mutex_unlock(&printing);
	return 0;
}

static void run_threads(void)
{
	pthread_t all[64];
	int i;

	signal(SIGUSR1, on_timer);
	pthread_barrier_init(&started, 0, (unsigned)threads);
	for (i = 0; i < threads; i++)
		pthread_create(&all[i], 0, thread, 0);
	for (i = 0; i < threads; i++)
		pthread_join(all[i], 0);
}

static volatile long steps, at_step;
static volatile int leave;
static long left;
static sigjmp_buf out;

static void on_step(int number, siginfo_t *info, void *context)
{
	ucontext_t *machine = context;

	(void)number;
	(void)info;
	if (++steps != at_step)
		return;
	machine->uc_mcontext.gregs[REG_EFL] &= ~TRAP;
	act(work + 1, 1);
	if (leave)
		siglongjmp(out, 1);
}

/* WHAT: a letter for the operation, and one for that of the handler. */
static void run_steps(void)
{
	struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_NODEFER};

	self = (gd_u32)getpid();
	sigaction(SIGTRAP, &action, 0);
	for (at_step = 1;; at_step += threads) {
		steps = 0;
		if (sigsetjmp(out, 1)) {
			left++;
			continue;
		}
		trap(1);
		act(work, 0);
		trap(0);
		if (steps < at_step)
			break;
	}
	printf("%lu %lu %ld\n", serial[0], serial[1], left);
}

static void run_forks(void)
{
	long n;

	for (n = 0; n < count; n++) {
		struct timespec moment = {0, 200000 + n % 16 * 50000};
		pid_t child = fork();

		if (!child) {
			self = (gd_u32)getpid();
			for (;;)
				act(work, 0);
		}
		nanosleep(&moment, 0);
		kill(child, SIGKILL);
		waitpid(child, 0, 0);
	}
	self = (gd_u32)getpid();
	act(work, 1);
	printf("%u %lu\n", self, serial[1]);
}

static gd_u64 now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (gd_u64)t.tv_sec * 1000000000UL + (gd_u64)t.tv_nsec;
}

static __attribute__((noinline)) void timed(struct gd_context *ctx, int what, gd_u64 n)
{
	gd_u64 key[2] = {n & 63, 0}, value;

	switch (what) {
	case 0:
		gd_count(ctx, 1, 0, 0);
		break;
	case 1:
		gd_count(ctx, 2, key, 16);
		break;
	case 2:
		gd_quantize(ctx, 11, 0, 0, (gd_s64)n, 1);
		break;
	case 3:
		gd_min(ctx, 12, 0, 0, (gd_s64)n);
		break;
	case 4:
		if (gd_reserve(ctx, 1, 8))
			*(gd_u64 *)ctx->data = n;
		gd_commit(ctx);
		break;
	case 5:
		gd_dynamic_store(ctx, 1 | GD_SELF, key, 0, &n, 8);
		break;
	case 6:
		gd_dynamic_load(ctx, 1 | GD_SELF, key, 0, &value, 8);
		break;
	case 7:
		gd_dynamic_store(ctx, 3 | GD_SELF, key, 0, &n, 8);
		gd_dynamic_delete(ctx, 3 | GD_SELF, key, 0);
		break;
	case 8:
		gd_load(ctx, &value, (gd_u64)&wrong, 8);
		break;
	}
}

static void run_times(void)
{
	static const char *const names[] = {"count",	     "keyed count", "quantize",	     "min",	"record",
					    "dynamic store", "dynamic load", "store, delete", "load 8 bytes"};
	struct gd_context ctx;
	struct gd_event event;
	int what, round;
	gd_u64 start, best, took;
	long n;

	self = (gd_u32)getpid();
	begin(&ctx, &event);
	for (what = 0; what < 9; what++) {
		for (best = ~0UL, round = 0; round < 5; round++) {
			start = now();
			for (n = 0; n < count; n++)
				timed(&ctx, what, (gd_u64)n);
			took = now() - start;
			best = took < best ? took : best;
		}
		printf("%s: %lu.%02lu ns\n", names[what], best / (gd_u64)count, best * 100 / (gd_u64)count % 100);
	}
}

int main(int argc, char **argv)
{
	int fd = atoi(argv[1]);
	struct gd_control *control = mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0);

	if (argc < 5)
		return 2;
	layout = control->layout;
	memory = mmap(0, layout.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	work = argv[3];
	count = atol(argv[argc - 1]);
	threads = argc > 5 ? atoi(argv[4]) : 1;
	leave = (int)count;
	if (!strcmp(argv[2], "threads"))
		run_threads();
	else if (!strcmp(argv[2], "step"))
		run_steps();
	else if (!strcmp(argv[2], "fork"))
		run_forks();
	else
		run_times();
	printf("wrong %lu\n", wrong);
	return wrong != 0;
}
