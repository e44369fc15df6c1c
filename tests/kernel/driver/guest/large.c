/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * large ADDRESS BYTES: kills a client while the driver checks the units of a large message; the first, a jump over these
 * bytes, is good, and the others are at the same place. It tries up to ROUNDS times, until a client was killed before
 * anything was written. Prints in how many rounds something was written, and in how many nothing was.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ilk_abi.h"

#define UNITS 150000
#define ROUNDS 20

static struct ilk_unit unit;
static volatile int *begun;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void ask(int file, unsigned int request, void *message, unsigned int size)
{
	*(struct ilk_head *)message = (struct ilk_head){ size, ILK_PROTOCOL };
	if (ioctl(file, request, message))
		die("ioctl");
}

static void jump(unsigned char *at, __u64 from, __u64 to)
{
	int distance = to - from - 5;

	at[0] = 0xe9;
	memcpy(at + 1, &distance, 4);
}

static void fill(int file)
{
	static unsigned char space[sizeof(struct ilk_fill) + 64];
	struct ilk_arena arena = { .bytes = 4096 };
	struct ilk_fill *message = (void *)space;

	ask(file, ILK_ARENA, &arena, sizeof(arena));
	unit.patch = unit.copy = message->address = arena.address;
	memset(unit.new, 0x90, unit.length);
	jump(unit.new, unit.address, unit.patch);
	message->bytes = unit.length + 5;
	memcpy(message->content, unit.old, unit.length);
	jump(message->content + unit.length, unit.patch + unit.length, unit.address + unit.length);
	ask(file, ILK_FILL, message, sizeof(space));
}

static void apply(int file)
{
	unsigned int size = sizeof(struct ilk_apply) + UNITS * sizeof(unit), i;
	struct ilk_apply *message = malloc(size);

	message->count = UNITS;
	for (i = 0; i < UNITS; i++) {
		unit.id = i + 1;
		message->unit[i] = unit;
	}
	*begun = 1;
	ask(file, ILK_APPLY, message, size);
	*begun = 2;
}

static struct ilk_status status(void)
{
	struct ilk_status status;
	int file = open(ILK_DEVICE, O_RDWR);

	if (file < 0)
		die(ILK_DEVICE);
	ask(file, ILK_STATUS, &status, sizeof(status));
	close(file);
	return status;
}

/* The time that the process has spent in the kernel, in ticks of a hundredth of a second. */
static unsigned long in_kernel(pid_t pid)
{
	char path[64], text[1024];
	unsigned long ticks = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "r");
	if (file && fgets(text, sizeof(text), file))
		sscanf(strrchr(text, ')'), ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %lu", &ticks);
	if (file)
		fclose(file);
	return ticks;
}

/* Kills a client after so many ticks in the kernel; returns whether anything was written. */
static int killed(unsigned long after)
{
	__u64 before = status().batches;
	unsigned long start;
	pid_t child;
	int file, how;

	*begun = 0;
	child = fork();
	if (!child) {
		file = open(ILK_DEVICE, O_RDWR);
		if (file < 0)
			die(ILK_DEVICE);
		fill(file);
		apply(file);
		pause();
	}
	while (!*begun && !waitpid(child, &how, WNOHANG))
		usleep(100);
	for (start = in_kernel(child); *begun == 1 && in_kernel(child) < start + after;)
		usleep(100);
	kill(child, SIGKILL);
	if (waitpid(child, &how, 0) != child || !WIFSIGNALED(how))
		exit(3);
	if (status().units)
		exit(4);
	return status().batches != before;
}

int main(int argc, char **argv)
{
	int written = 0, round;

	if (argc < 3)
		return 2;
	begun = mmap(NULL, sizeof(*begun), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unit.address = strtoull(argv[1], NULL, 16);
	for (const char *at = argv[2]; sscanf(at, "%2hhx", &unit.old[unit.length]) == 1 && unit.length < ILK_WINDOW - 1; at += 2)
		unit.length++;
	unit.kind = ILK_MULTI;
	for (round = 0; round < ROUNDS && written == round; round++)
		written += killed(20); /* the copy of the message takes less */
	printf("%d %d\n", written, round - written);
	return 0;
}
