/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * killed SEED ROUNDS ADDRESS:KIND:OLD...: starts a client that puts those splices in and takes them out, and kills it at a
 * random moment, so many times, in turn in each of its states, or in the next one.
 * KIND is that of a unit, OLD the window's bytes in hex; each splice counts, and goes on.
 * After each kill there must be no other client, and no unit. Prints how often the client was killed in each state:
 * set up, applying, with all splices in, undoing.
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

#define MOST 256
#define ROOM 64 /* bytes of a patch */
#define LONGEST 100000 /* microseconds that a client may live on in the state in which it is killed */

enum { SETTING_UP, APPLYING, IN_FORCE, UNDOING, STATES };

static struct ilk_unit unit[MOST];
static unsigned int units;
static volatile int *state;

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

static void parse(const char *text, struct ilk_unit *unit, unsigned int id)
{
	unsigned int kind, byte;
	int at;

	unit->id = id;
	if (sscanf(text, "%lx:%u:%n", &unit->address, &kind, &at) != 2)
		exit(2);
	unit->kind = kind;
	for (text += at; unit->length < ILK_WINDOW && sscanf(text, "%2x", &byte) == 1; text += 2)
		unit->old[unit->length++] = byte;
}

static unsigned int jump(unsigned char *code, __u64 at, __u64 to)
{
	int distance = to - at - 5;

	code[0] = 0xe9;
	memcpy(code + 1, &distance, 4);
	return 5;
}

/* pushfq; incq %gs:counter; popfq; what was there; a jump behind it */
static void patch(struct ilk_unit *unit, unsigned char *code, __u64 address, __s64 counter)
{
	static const unsigned char count[] = { 0x9c, 0x65, 0x48, 0xff, 0x04, 0x25 };
	int offset = counter;
	unsigned int size = sizeof(count);

	memcpy(code, count, size);
	memcpy(code + size, &offset, 4);
	size += 4;
	code[size++] = 0x9d;
	unit->patch = address;
	unit->copy = address + size;
	memcpy(code + size, unit->old, unit->length);
	size += unit->length;
	jump(code + size, address + size, unit->address + unit->length);
	memset(unit->new, 0x90, unit->length);
	jump(unit->new, unit->address, address);
}

static void set_up(int file)
{
	static unsigned char space[sizeof(struct ilk_fill) + MOST * ROOM];
	struct { struct ilk_counters message; struct ilk_block block[16]; } counters = { .message.count = MOST };
	struct ilk_arena arena = { .bytes = MOST * ROOM };
	struct ilk_fill *fill = (void *)space;
	unsigned int i;

	ask(file, ILK_COUNTERS, &counters, sizeof(counters));
	ask(file, ILK_ARENA, &arena, sizeof(arena));
	memset(fill->content, 0xcc, MOST * ROOM);
	for (i = 0; i < units; i++)
		patch(&unit[i], fill->content + i * ROOM, arena.address + i * ROOM,
		      counters.message.block[0].gs + 8 * (i % counters.message.block[0].count));
	fill->address = arena.address;
	fill->bytes = MOST * ROOM;
	ask(file, ILK_FILL, fill, sizeof(space));
}

static void apply(int file)
{
	static struct { struct ilk_apply message; struct ilk_unit unit[MOST]; } all;

	all.message.count = units;
	memcpy(all.message.unit, unit, sizeof(unit));
	ask(file, ILK_APPLY, &all, sizeof(struct ilk_apply) + units * sizeof(*unit));
	if (all.message.applied != units)
		die("not all were applied");
}

static void live(int file)
{
	struct ilk_undo undo = { .count = 0 };

	set_up(file);
	for (;;) {
		*state = APPLYING;
		apply(file);
		*state = IN_FORCE;
		usleep(LONGEST / 2);
		*state = UNDOING;
		ask(file, ILK_UNDO, &undo, sizeof(undo));
	}
}

/* Kills a client, and returns the state in which it was killed. */
static int kill_one(int wanted, unsigned long life)
{
	int status, file, found;
	pid_t child;

	*state = SETTING_UP;
	child = fork();
	if (!child) {
		file = open(ILK_DEVICE, O_RDWR);
		if (file < 0)
			die(ILK_DEVICE);
		live(file);
	}
	while (*state != wanted && !waitpid(child, &status, WNOHANG))
		usleep(1000);
	usleep(life);
	kill(child, SIGKILL);
	found = *state;
	if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status))
		exit(3);
	return found;
}

static unsigned long next(unsigned long *random)
{
	return *random = *random * 6364136223846793005 + 1442695040888963407;
}

static void check(int file)
{
	struct ilk_status status;

	ask(file, ILK_STATUS, &status, sizeof(status));
	if (status.clients == 1 && !status.units && !status.orphans)
		return;
	fprintf(stderr, "%u clients, %lu units, %lu orphans\n", status.clients, status.units, status.orphans);
	exit(4);
}

int main(int argc, char **argv)
{
	int rounds, file, i, seen[STATES] = { 0 };
	unsigned long random;

	if (argc < 4)
		return 2;
	random = strtoul(argv[1], NULL, 0);
	rounds = atoi(argv[2]);
	for (i = 3; i < argc && units < MOST; i++, units++)
		parse(argv[i], &unit[units], units + 1);
	state = mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (i = 0; i < rounds; i++) {
		seen[kill_one(i % STATES, (next(&random) >> 32) % LONGEST)]++;
		file = open(ILK_DEVICE, O_RDWR); /* not before: a child would have it too */
		if (file < 0)
			die(ILK_DEVICE);
		check(file);
		close(file);
	}
	for (i = 0; i < STATES; i++)
		printf("%d ", seen[i]);
	return 0;
}
