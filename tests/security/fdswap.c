// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A process with a helper that shares only its table of descriptors (clone(2), CLONE_FILES): the helper is no thread,
 * so that no tracer of the process stops it. As soon as a descriptor appears there that the process has not opened
 * itself, the helper puts another in its place.
 *
 *     fdswap WHAT VICTIM
 *
 * WHAT says what replaces it: `path`, VICTIM by a descriptor that gives no right to it (O_PATH); `file`, VICTIM opened
 * for reading; `pipe`, an object without a size; `full`, memory that is not empty; `huge`, memory of huge pages; `mapped`,
 * the helper's own memory, once the new descriptor has its size, so that this is mapped instead. With `sealed`, `frozen`
 * and `closed` the new descriptor stays, but is sealed against further seals, sealed against writing, or closed. With
 * `nothing` it stays as it is; with `view` too, and the process has VICTIM mapped shared, for reading.
 * It prints "ready", and "swapped" each time that it has done so. It ends when its input does.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static char stack[1 << 16] __attribute__((aligned(16)));
static const char *what;
static int evil, first; /* the lowest descriptor that is free: the one that a tracer's memory gets */
volatile unsigned long done;

__attribute__((noinline)) void work(void)
{
	done++;
}

static pid_t maker;

static int is(const char *word)
{
	return strcmp(what, word) == 0;
}

static int is_memory(int fd)
{
	return fcntl(fd, F_GET_SEALS) >= 0;
}

static void say(const char *text)
{
	if (write(1, text, strlen(text)) < 0)
		_exit(1);
}

static void await_size(int fd)
{
	struct stat now;

	while (fstat(fd, &now) == 0 && now.st_size == 0)
		;
}

static void swap(void)
{
	if (is("sealed")) {
		fcntl(first, F_ADD_SEALS, F_SEAL_SEAL);
	} else if (is("frozen")) {
		fcntl(first, F_ADD_SEALS, F_SEAL_WRITE);
	} else if (is("closed")) {
		close(first);
	} else if (!is("nothing") && !is("view")) {
		if (is("mapped"))
			await_size(first);
		dup3(evil, first, O_CLOEXEC);
	}
	say("swapped\n");
	while (fcntl(first, F_GETFD) >= 0)
		;
}

static __attribute__((noreturn)) int helper(void *unused)
{
	(void)unused;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != maker) /* the maker has ended already */
		_exit(0);
	for (;;)
		if (fcntl(first, F_GETFD) >= 0 && is_memory(first))
			swap();
}

static int own_memory(unsigned int flags, off_t size)
{
	int fd = memfd_create("own", MFD_ALLOW_SEALING | MFD_CLOEXEC | flags);

	if (fd >= 0 && ftruncate(fd, size))
		_exit(1);
	return fd;
}

static int one_end(void)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		_exit(1);
	return ends[1];
}

static int viewed(const char *victim)
{
	int fd = open(victim, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
		_exit(1);
	return fd;
}

static int opened(const char *victim)
{
	if (is("view"))
		return viewed(victim);
	if (is("path"))
		return open(victim, O_PATH | O_CLOEXEC);
	if (is("file"))
		return open(victim, O_RDONLY | O_CLOEXEC);
	if (is("pipe"))
		return one_end();
	return own_memory(is("huge") ? MFD_HUGETLB : 0, is("mapped") ? 1L << 37 : is("full"));
}

int main(int count, char **words)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };

	if (count != 3)
		return 2;
	what = words[1];
	maker = getpid();
	evil = opened(words[2]);
	if (evil < 0) {
		perror(words[2]);
		return 1;
	}
	first = evil + 1;
	if (clone(helper, stack + sizeof stack, CLONE_FILES | SIGCHLD, NULL) < 0)
		return 1;
	say("ready\n");
	while (poll(&input, 1, 1) == 0)
		work();
	return 0;
}
