/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Threads and signal handlers that log as fast as they can, by the runtime's own code.
 *
 *     producer FD THREADS RECORDS
 *
 * Each thread goes on until it has logged RECORDS times and had 200 signals.
 * Each thread numbers what it logs, apart for its loop and for its signal
 * handler, and apart for each record class. At the end it prints a line
 * "tid class source logged" for each of these.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include "runtime/runtime.h"

/* gilk_control is constant to those who include gilk.h, so it is set by another name. */
extern struct gilk_control *control_slot;
__asm__(".data\n.balign 8\n.globl gilk_control, control_slot\n.hidden gilk_control\n"
	"gilk_control:\ncontrol_slot: .quad 0\n.text");
struct gilk_params gilk_params;
gilk_u64 gilk_key;

static long records;
static __thread gilk_u64 logged[2][GILK_CLASSES];
static __thread int ready;
static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t started;
static int running;

/* iid: bit 31 for the signal handler, the rest a number, from 1 up. */
static void stamp(int source)
{
	gilk_u64 at = gilk_reserve(0, 16);

	if (at)
		gilk_commit(at, (gilk_u32)source << 31 | (gilk_u32)(logged[source][0] + 1));
	logged[source][0]++;
}

static void arguments(int source)
{
	gilk_u64 at = gilk_reserve(2, 64), n;

	for (n = 0; at && n < 6; n++)
		gilk_block_store(at + 16 + 8 * n, logged[source][2] + n);
	if (at)
		gilk_commit(at, (gilk_u32)source << 31 | 2);
	logged[source][2]++;
}

static void text(int source)
{
	char digits[24];
	int n = sizeof(digits) - 1;
	gilk_u64 number = logged[source][3]++;

	digits[n] = 0;
	do
		digits[--n] = (char)('0' + number % 10);
	while (number /= 10);
	ilk_log_string_sample(digits + n, (gilk_u32)source << 31 | 3);
}

static void log_all(int source)
{
	stamp(source);
	ilk_log_pair_sample(logged[source][1]++, (gilk_u64)source, (gilk_u32)source << 31 | 1);
	arguments(source);
	text(source);
	gilk_block_increment(GILK_PAGE + 8 * (gilk_u64)source);
}

static void on_signal(int number)
{
	(void)number;
	if (ready)
		log_all(1);
}

static void *work(void *unused)
{
	long n;
	int source, class;

	/* As the keeper does: until it has a block, a thread's GS points at the control page, which is no one's. */
	host_attach((struct gilk_block *)gilk_params.control);
	if (!gilk_claim())
		exit(3);
	ready = 1;
	pthread_barrier_wait(&started);
	for (n = 0; n < records || logged[1][0] < 200; n++)
		log_all(0);
	ready = 0;
	pthread_mutex_lock(&printing);
	for (source = 0; source < 2; source++)
		for (class = 0; class < GILK_CLASSES; class++)
			printf("%u %d %d %lu\n", host_tid(), class, source, logged[source][class]);
	pthread_mutex_unlock(&printing);
	__atomic_sub_fetch(&running, 1, __ATOMIC_RELAXED);
	return unused;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	struct timespec pause = {0, 20000};
	pthread_t thread[64];
	struct stat status;
	int fd = atoi(argv[1]), threads = atoi(argv[argc - 2]), n;


	records = atol(argv[argc - 1]);
	fstat(fd, &status);
	gilk_params.control = mmap(0, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	control_slot = gilk_params.control;
	running = threads;
	pthread_barrier_init(&started, 0, (unsigned)threads);
	sigaction(SIGUSR1, &action, 0);
	for (n = 0; n < threads; n++)
		pthread_create(&thread[n], 0, work, 0);
	for (n = 0; __atomic_load_n(&running, __ATOMIC_RELAXED); n = (n + 1) % threads) {
		pthread_kill(thread[n], SIGUSR1);
		nanosleep(&pause, 0);
	}
	for (n = 0; n < threads; n++)
		pthread_join(thread[n], 0);
	return 0;
}
