/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fuzz SEED ROUNDS ADDRESS...: sends messages that are wrong in some way, from four threads that share descriptors.
 *
 * Arenas hold only returns, and no window's bytes are ever right, so that accepted messages do no harm: any fault
 * in the kernel is the driver's own. Prints how many messages the driver accepted, and how many it refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "ilk_abi.h"

#define ROOM 65536
#define THREADS 4

static unsigned long seed;
static int rounds, addresses;
static __u64 address[64];
static atomic_int files[2];
static _Atomic __u64 arena;
static atomic_ulong taken, refused;

static __u64 place(unsigned long *state)
{
	if (next(state) % 2 && arena)
		return arena + next(state) % 8192;
	if (addresses && next(state) % 4)
		return address[next(state) % addresses] + (next(state) % 4 ? 0 : next(state) % 64);
	return number(state);
}

static void unit(struct ilk_unit *unit, unsigned long *state)
{
	int distance;
	unsigned int i;

	memset(unit, 0, sizeof(*unit));
	unit->address = place(state);
	unit->patch = arena + next(state) % 4096;
	unit->copy = next(state) % 4 ? arena + 64 : place(state);
	unit->id = next(state) % 16;
	unit->kind = next(state) % 9;
	unit->length = next(state) % 4 ? 5 + next(state) % 8 : next(state);
	unit->flags = next(state) % 8 ? 0 : next(state);
	unit->pad = next(state) % 8 ? 0 : next(state) % 16;
	for (i = 0; i < ILK_WINDOW; i++)
		unit->old[i] = 0x50 + next(state) % 8; /* pushes, with never a jump among them */
	unit->old[0] = 0x06; /* no instruction, so it never matches the text */
	if (next(state) % 2)
		unit->old[0] = 0x9b; /* one that the kernel does not use */
	memset(unit->new, 0x90, ILK_WINDOW);
	unit->new[0] = unit->kind == ILK_TRAP ? 0xcc : unit->kind == ILK_SHORT ? 0xeb : 0xe9;
	distance = unit->patch - unit->address - 5;
	if (unit->kind != ILK_SHORT && unit->kind != ILK_TRAP)
		memcpy(unit->new + 1, &distance, 4);
	if (next(state) % 8 == 0)
		unit->new[next(state) % ILK_WINDOW] = next(state);
}

static unsigned int body(unsigned char *message, unsigned int request, unsigned long *state)
{
	__u64 *words = (__u64 *)(message + sizeof(struct ilk_head));
	__u32 *halves = (__u32 *)words;
	struct ilk_apply *apply = (void *)message;
	unsigned int i, count = next(state) % 24;

	switch (request) {
	case ILK_APPLY:
		for (i = 0; i < count; i++)
			unit(&apply->unit[i], state);
		apply->count = next(state) % 16 ? count : number(state);
		return sizeof(*apply) + count * sizeof(struct ilk_unit);
	case ILK_UNDO:
		for (i = 0; i < 2 * count; i++)
			halves[2 + i] = next(state) % 16;
		halves[0] = next(state) % 16 ? count : number(state);
		return sizeof(struct ilk_undo) + count * sizeof(struct ilk_result);
	case ILK_FILL:
		words[0] = place(state);
		words[1] = number(state);
		memset(words + 2, 0xc3, 4096);
		return sizeof(struct ilk_fill) + next(state) % 4096;
	case ILK_ARENA:
		words[0] = next(state) % 4 ? next(state) % 65536 : number(state);
		return sizeof(struct ilk_arena);
	case ILK_RECORDS:
		for (i = 0; i < 4; i++)
			halves[i] = next(state) % 4 ? next(state) % 20 : number(state);
		halves[4] = next(state) % 8 ? next(state) % 2 : number(state);
		halves[5] = next(state) % 8 ? next(state) % 3 : number(state);
		return sizeof(struct ilk_records);
	case ILK_FILTER:
		halves[0] = next(state) % 8 ? next(state) % 8 : number(state);
		halves[1] = next(state) % 8 ? next(state) % 16 : number(state);
		halves[2] = next(state) % 8 ? next(state) % 16 : number(state);
		for (i = 4; i < 36; i++)
			halves[i] = next(state) % 16 ? next(state) % ILK_TGIDS : number(state);
		return sizeof(struct ilk_filter) + 4 * (next(state) % 40);
	default:
		for (i = 0; i < 8; i++)
			words[i] = number(state);
		return 8 + next(state) % 1024;
	}
}

static void say(unsigned char *message, unsigned long *state)
{
	unsigned int request = ILK_REQUEST(next(state) % 13);
	struct ilk_head *head = (void *)message;
	unsigned int size = body(message, request, state);

	head->size = next(state) % 16 ? size : number(state);
	head->version = next(state) % 32 ? ILK_PROTOCOL : next(state);
	if (next(state) % 64 == 0)
		request = next(state);
	if (next(state) % 64 == 0) /* so that the buffer ends before the message */
		message += ROOM - 4 - next(state) % 64;
	if (!ioctl(files[next(state) % 2], request, message)) {
		taken++;
		if (request == ILK_ARENA && !arena)
			arena = ((struct ilk_arena *)message)->address;
	} else {
		refused++;
	}
}

/* Maps areas that the driver has, and others that do not exist; writes to those that are writable. */
static void map(unsigned long *state)
{
	static const int may[] = { PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_EXEC, PROT_WRITE };
	int how = next(state) % 8 ? MAP_SHARED : MAP_PRIVATE, access = may[next(state) % 4];
	size_t size = 4096 * (1 + (next(state) % 2 ? 0 : next(state) % 64));
	__u64 offset = next(state) % 4 ? (next(state) % 8) << 32 : number(state) & ~4095ul;
	__u64 *words = mmap(NULL, size, access, how, files[next(state) % 2], offset);

	if (words == MAP_FAILED)
		return;
	if (mprotect(words, size, PROT_READ | PROT_WRITE) == 0)
		for (int i = 0; i < 512; i++)
			words[i] = number(state);
	munmap(words, size);
}

static void look(unsigned long *state)
{
	struct pollfd file = { .fd = files[next(state) % 2], .events = POLLIN };
	unsigned char records[ILK_READ_MIN];

	poll(&file, 1, 0);
	if (read(file.fd, records, sizeof(records)) < 0 && errno == EIO)
		exit(5);
}

/* The client's whole arena consists of returns, so that a jump into it comes back. */
static void new_client(int which)
{
	static unsigned char message[sizeof(struct ilk_fill) + 16384];
	struct ilk_arena *room = (void *)message;
	struct ilk_fill *fill = (void *)message;
	int file = open(ILK_DEVICE, O_RDWR);

	*room = (struct ilk_arena){ { sizeof(*room), ILK_PROTOCOL }, 16384, 0 };
	if (file < 0 || ioctl(file, ILK_ARENA, room))
		exit(3);
	arena = room->address;
	memset(fill->content, 0xc3, 16384);
	fill->address = arena;
	fill->bytes = 16384;
	fill->head.size = sizeof(message);
	if (ioctl(file, ILK_FILL, fill))
		exit(4);
	files[which] = file;
}

static void *run(void *argument)
{
	unsigned long state = seed * 7919 + (long)argument + 1;
	unsigned char *message = mmap(NULL, ROOM + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int i;

	munmap(message + ROOM, 4096);
	for (i = 0; i < rounds; i++) {
		say(message, &state);
		if (next(&state) % 32 == 0)
			look(&state);
		if (next(&state) % 32 == 0)
			map(&state);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	long i;

	if (argc < 3)
		return 2;
	seed = strtoul(argv[1], NULL, 0);
	rounds = atoi(argv[2]);
	for (i = 3; i < argc && addresses < 64; i++)
		address[addresses++] = strtoul(argv[i], NULL, 0);
	new_client(0);
	new_client(1);
	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run, (void *)i);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%lu %lu\n", taken, refused);
	return 0;
}
