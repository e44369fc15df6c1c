/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Does what it is told by letters on standard input, and answers each with the same letter, while two threads compute
 * and compare. 'e', 'q' and 'x' end the program or begin it anew; '.' ends it if all that it has computed is right.
 */
#include "../check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

enum { THREADS = 2, CHILDREN = 10, CALLS = 500, ROUNDS = 10, BRIEF = 4, SIGNALS = 100, STATUS = 7 };

static volatile int stop;
static volatile sig_atomic_t caught;

NOINLINE long leaf(long x);
NOINLINE long leaf(long x)
{
	BARRIER();
	return x * 3 + 1;
}

NOINLINE long middle(long x);
NOINLINE long middle(long x)
{
	long sum = 0;

	for (int i = 0; i < 5; i++)
		sum += leaf(x + i);
	return sum;
}

NOINLINE long top(long x);
NOINLINE long top(long x)
{
	return middle(x) + leaf(x);
}

static void compare(long x)
{
	long found = top(x);

	CHECK(found == 18 * x + 36, "top(%ld) is %ld", x, found);
}

static void *compute(void *unused)
{
	for (long x = 0; !stop; x++)
		compare(x);
	return unused;
}

static void *compute_briefly(void *unused)
{
	for (long x = 0; x < CALLS; x++)
		compare(x);
	return unused;
}

static void on_signal(int number)
{
	compare(number);
	caught++;
}

static void expect_status(pid_t child, int wanted)
{
	int status;

	CHECK(child > 0, "no child");
	CHECK(waitpid(child, &status, 0) == child, "waitpid");
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == wanted, "a child ended with %#x", status);
}

static void fork_children(void)
{
	for (int i = 0; i < CHILDREN; i++) {
		pid_t child = fork();

		if (!child) {
			compute_briefly(NULL);
			_exit(STATUS);
		}
		expect_status(child, STATUS);
	}
}

static void vfork_children(void)
{
	for (int i = 0; i < CHILDREN; i++) {
		pid_t child = vfork();

		if (!child) {
			execl("/bin/true", "true", (char *)NULL);
			_exit(STATUS);
		}
		expect_status(child, 0);
	}
}

static void open_a_library(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		void *library = dlopen("libz.so.1", RTLD_NOW);
		unsigned long (*crc32)(unsigned long, const void *, unsigned);

		CHECK(library, "%s", dlerror());
		*(void **)&crc32 = dlsym(library, "crc32");
		CHECK(crc32(0, "abc", 3) == 0x352441c2UL, "crc32 is wrong");
		dlclose(library);
	}
}

static void make_threads(void)
{
	pthread_t brief[BRIEF];

	for (int i = 0; i < ROUNDS; i++) {
		for (int k = 0; k < BRIEF; k++)
			CHECK(!pthread_create(&brief[k], NULL, compute_briefly, NULL), "pthread_create");
		for (int k = 0; k < BRIEF; k++)
			pthread_join(brief[k], NULL);
	}
}

static void take_signals(void)
{
	int before = caught;

	for (int i = 0; i < SIGNALS; i++)
		raise(SIGUSR1);
	CHECK(caught == before + SIGNALS, "%d signals", caught - before);
}

static void obey(int letter, char **argv)
{
	switch (letter) {
	case 'f': fork_children(); break;
	case 'v': vfork_children(); break;
	case 'd': open_a_library(); break;
	case 't': make_threads(); break;
	case 's': take_signals(); break;
	case 'e': exit(STATUS);
	case 'q': _exit(STATUS);
	case 'x': execl("/proc/self/exe", argv[0], (char *)NULL);
	}
}

int main(int count, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	pthread_t threads[THREADS];
	char letter;

	(void)count;
	check_name = "moments";
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, compute, NULL);
	dprintf(1, "ready\n");
	while (read(0, &letter, 1) == 1 && letter != '.') {
		obey(letter, argv);
		dprintf(1, "%c\n", letter);
	}
	stop = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	dprintf(1, "ok moments\n");
	return 0;
}
