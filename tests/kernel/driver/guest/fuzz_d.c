/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fuzz_d SEED ROUNDS FILE ADDRESS...: sends wrong messages about D programs, from four threads that share descriptors,
 * which are replaced by fresh ones meanwhile.
 *
 * FILE is a message that loads a program whose code is sound. With some bytes changed, it has to be refused, or to be
 * sound as well: clocks and tracepoints run it in interrupts. Prints how many messages were taken, how many
 * refused, how many programs were loaded, whole and changed, and how many uprobes there were.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long u64;

#include "fuzz.h"
#include "ilk_d_abi.h"

#define ROOM 262144
#define THREADS 4
#define FILES 3
#define MEMORY_MOST (16ul << 20) /* of a program: the machine is small */

void probed(u64 n);

static u64 seed;
static int rounds, addresses;
static u64 address[64], memory;
static u8 program[ROOM], instruction[ILK_D_INSTRUCTION];
static u32 program_size;
static atomic_int files[FILES];
static atomic_ulong taken, refused, whole, changed, uprobes;

/* An offset that is mostly within the memory of the program. */
static u64 offset(u64 *state)
{
	u64 within = next(state) % (memory + 4096);

	return next(state) % 8 ? within & ~7ul : number(state);
}

static u32 small(u64 *state)
{
	return next(state) % 8 ? next(state) % 4 : (u32)number(state);
}

/* Changes the program at random; true if it is unchanged. */
static bool changed_program(u8 *message, u64 *state)
{
	struct ilk_d_program *made = (void *)message;
	u64 at, i, count = next(state) % 4;

	memcpy(message, program, program_size);
	for (i = 0; i < count; i++) {
		at = sizeof(struct ilk_head) + next(state) % (program_size - sizeof(struct ilk_head));
		message[at] = next(state) % 2 ? next(state) : message[at] ^ 1ul << next(state) % 8;
	}
	if (made->layout.size > MEMORY_MOST)
		made->layout.size = ((struct ilk_d_program *)program)->layout.size;
	return !memcmp(message, program, program_size);
}

static u32 put(struct ilk_d_put *message, u64 *state)
{
	u32 i;

	message->count = 1 + next(state) % 4;
	for (i = 0; i < message->count; i++) {
		message->word[i] = (struct ilk_d_word){ offset(state), number(state), next(state) % 2 ? 4 : 8, 0 };
		if (next(state) % 2) /* have it run, or not */
			message->word[i] = (struct ilk_d_word){
				offsetof(struct gd_control, state), next(state) % 3, 4, 0 };
	}
	if (next(state) % 8 == 0)
		message->count = number(state);
	return sizeof(*message) + 4 * sizeof(struct ilk_d_word);
}

static u32 attach(struct ilk_d_attach *message, u64 *state)
{
	u32 i, count = next(state) % 3;

	message->site = small(state) + 1;
	message->kind = small(state);
	message->group = small(state);
	message->probe = small(state);
	message->count = next(state) % 8 ? count : number(state);
	message->flags = small(state) % 2;
	message->role = next(state) % 2 ? ILK_D_FIRES : next(state) % (ILK_D_ROLES + 1);
	message->reserved = next(state) % 16 == 0;
	message->start = addresses ? address[0] : 0;
	message->address = message->start;
	for (i = 0; i < count; i++)
		message->choice[i] = (struct ilk_d_choice){ next(state) % 600, small(state), small(state) };
	return sizeof(*message) + count * sizeof(struct ilk_d_choice);
}

static u32 point(struct ilk_d_point *message, u64 *state)
{
	static const char *const names[] = { "sched_switch", "sys_enter", "sys_exit", "sched_wakeup", "nosuch", "" };

	message->group = small(state);
	message->probe = small(state);
	message->flags = small(state) % 2;
	message->reserved = 0;
	if (next(state) % 8 == 0)
		memset(message->name, 'x', sizeof(message->name)); /* without a NUL */
	else
		snprintf(message->name, sizeof(message->name), "%s", names[next(state) % 6]);
	return sizeof(*message);
}

/* Events of the kernel mostly, such as page faults and context switches, and some of tracefs. */
static u32 perf(struct ilk_d_perf *message, u64 *state)
{
	message->type = next(state) % 8 ? 1 + next(state) % 2 : number(state);
	message->flags = next(state) % 8 ? next(state) % 32 : number(state);
	message->config = next(state) % 8 ? next(state) % (message->type == 2 ? 600 : 10) : number(state);
	message->period = next(state) % 8 ? 1 + next(state) % 100000 : number(state);
	message->group = small(state);
	message->probe = small(state);
	return sizeof(*message);
}

/* All threads call this now and then. */
__attribute__((noinline, aligned(64))) void probed(u64 n)
{
	__asm__ volatile("" : : "r"(n) : "memory");
}

/* A uprobe in this program, whose memory it may touch, in another file, or in none; at an instruction, or not. */
static u32 uprobe(struct ilk_d_uprobe *message, u64 *state)
{
	extern const u8 __executable_start[];
	static const char *const names[] = { "/proc/self/exe", "/proc/self/exe", "/bin/sh", "/proc/self/maps", "/dev/null" };
	u32 i, count = next(state) % 3;

	message->descriptor = next(state) % 8 ? open(names[next(state) % 5], O_RDONLY | O_CLOEXEC) : small(state);
	message->kind = small(state) % 3;
	message->group = small(state);
	message->probe = small(state);
	message->flags = small(state);
	message->role = next(state) % 2 ? ILK_D_FIRES : next(state) % (ILK_D_ROLES + 1);
	message->reserved = next(state) % 16 == 0;
	message->offset = (u64)probed - (u64)__executable_start;
	message->start = number(state);
	message->length = 1 + next(state) % 15;
	memcpy(message->bytes, instruction, sizeof(message->bytes));
	if (next(state) % 4 == 0)
		message->offset += next(state) % 32;
	if (next(state) % 16 == 0)
		message->offset = number(state);
	message->count = next(state) % 16 ? count : number(state);
	for (i = 0; i < count; i++)
		message->process[i] = next(state) % 4 ? (u32)getpid() : number(state);
	return sizeof(*message) + count * sizeof(u32);
}

static u32 clock_(struct ilk_d_clock *message, u64 *state)
{
	message->period = next(state) % 4 ? 200000 + next(state) % 10000000 : number(state);
	message->group = small(state);
	message->probe = small(state);
	message->flags = small(state);
	message->reserved = 0;
	return sizeof(*message);
}

static u32 fire(struct ilk_d_fire *message, u64 *state)
{
	int i;

	message->group = small(state);
	message->probe = small(state);
	message->flags = small(state) % 2;
	message->reserved = 0;
	for (i = 0; i < 10; i++)
		message->arg[i] = number(state);
	return sizeof(*message);
}

static u32 read_(struct ilk_d_read *message, u64 *state)
{
	u32 i, count = next(state) % 4, size = sizeof(*message);

	message->count = next(state) % 8 ? count : number(state);
	message->reserved = 0;
	for (i = 0; i < count; i++) {
		message->range[i] = (struct ilk_d_range){ offset(state), next(state) % 4096 };
		size += sizeof(*message->range) + message->range[i].size;
		if (next(state) % 8 == 0)
			message->range[i].size = number(state);
	}
	return size;
}

static u32 lines(struct ilk_d_lines *message, u64 *state)
{
	message->offset = offset(state);
	message->size = next(state) % 4 ? memory - message->offset : number(state);
	message->room = next(state) % 8 ? next(state) % 64 : number(state);
	return sizeof(*message) + 64 * sizeof(struct ilk_d_line);
}

static u32 other(u32 request, u8 *message, u64 *state)
{
	u32 *halves = (u32 *)(message + sizeof(struct ilk_head));
	u64 *words = (u64 *)halves;

	switch (request) {
	case ILK_D_SITES:
		halves[0] = small(state);
		return sizeof(struct ilk_d_sites);
	case ILK_D_FIND:
		words[0] = addresses ? address[next(state) % addresses] : number(state);
		halves[2] = small(state);
		return sizeof(struct ilk_d_find);
	case ILK_D_FORCE:
		halves[0] = next(state) % 4 ? 1 : number(state);
		halves[1] = 0;
		halves[2] = small(state);
		return sizeof(struct ilk_d_force) + 4;
	case ILK_D_ORIGINALS:
		halves[0] = next(state) % 4 ? next(state) % 16 : number(state);
		return sizeof(struct ilk_d_originals) + 16 * sizeof(struct ilk_d_original);
	case ILK_D_MAPPED:
		halves[0] = next(state) % 4 ? next(state) % 16 : number(state);
		return sizeof(struct ilk_d_mapped) + 16 * sizeof(struct ilk_d_mapping);
	case ILK_SHARE:
		words[0] = next(state) % 4 ? next(state) % 65536 : number(state);
		words[1] = words[2] = 0;
		return sizeof(struct ilk_share);
	default: /* STATUS, REAP, SETTLE */
		words[0] = number(state);
		return next(state) % 4 ? sizeof(struct ilk_d_status) : 8 + next(state) % 64;
	}
}

static u32 body(u32 request, u8 *message, u64 *state)
{
	switch (request) {
	case ILK_D_ATTACH:
		return attach((void *)message, state);
	case ILK_D_CLOCK:
		return clock_((void *)message, state);
	case ILK_D_FIRE:
		return fire((void *)message, state);
	case ILK_D_READ:
		return read_((void *)message, state);
	case ILK_D_LINES:
		return lines((void *)message, state);
	case ILK_D_PUT:
		return put((void *)message, state);
	case ILK_D_POINT:
		return point((void *)message, state);
	case ILK_D_UPROBE:
		return uprobe((void *)message, state);
	case ILK_D_PERF:
		return perf((void *)message, state);
	}
	return other(request, message, state);
}

static bool ask(u8 *message, u32 request, u32 size, u64 *state)
{
	struct ilk_head *head = (void *)message;
	bool done;

	head->size = next(state) % 32 ? size : number(state);
	head->version = next(state) % 64 ? ILK_PROTOCOL : next(state);
	done = !ioctl(files[next(state) % FILES], request, message);

	if (request == ILK_D_UPROBE && ((struct ilk_d_uprobe *)message)->descriptor > 8) /* none of the clients */
		close(((struct ilk_d_uprobe *)message)->descriptor);
	if (!done) {
		refused++;
		return false;
	}
	taken++;
	uprobes += request == ILK_D_UPROBE;
	if (request == ILK_SHARE)
		close(((struct ilk_share *)message)->descriptor);
	return true;
}

static void load(u8 *message, u64 *state)
{
	bool same = changed_program(message, state);

	if (ask(message, ILK_D_PROGRAM, program_size, state) && !((struct ilk_d_program *)message)->verdict)
		(*(same ? &whole : &changed))++;
}

/* Replaces the client, whatever the other threads do: the old one goes when the last of them has finished with it. */
static void fresh(u64 *state)
{
	int file = open(ILK_DEVICE, O_RDWR | O_CLOEXEC);

	if (file < 0 || dup2(file, files[next(state) % FILES]) < 0)
		exit(3);
	close(file);
}

static void *run(void *argument)
{
	static const u8 requests[] = { 13, 14, 15, 16, 16, 16, 17, 18, 19, 19, 20, 21, 22, 23, 24, 25, 26, 28, 29, 29, 30, 30, 32 };
	u64 state = seed * 7919 + (u64)argument + 1;
	u8 *message = malloc(ROOM * 2);
	u32 request;
	int i;

	for (i = 0; i < rounds; i++) {
		if (next(&state) % 8 == 0) {
			load(message, &state);
			continue;
		}
		if (next(&state) % 32 == 0)
			fresh(&state);
		memset(message, 0, 4096);
		probed(i);
		request = ILK_REQUEST(requests[next(&state) % sizeof(requests)]);
		ask(message, request, body(request, message, &state), &state);
	}
	free(message);
	return NULL;
}

static void begin(const char *path)
{
	int i, file = open(path, O_RDONLY);
	long size = read(file, program, sizeof(program));

	if (file < 0 || size < (long)sizeof(struct ilk_d_program) || size == sizeof(program))
		exit(4);
	program_size = size;
	memcpy(instruction, (const void *)probed, sizeof(instruction)); /* before there is any uprobe */
	memory = ((struct ilk_d_program *)program)->layout.size;
	for (i = 0; i < FILES; i++) {
		files[i] = open(ILK_DEVICE, O_RDWR | O_CLOEXEC);
		if (files[i] < 0)
			exit(3);
	}
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	long i;

	if (argc < 4)
		return 2;
	seed = strtoul(argv[1], NULL, 0);
	rounds = atoi(argv[2]);
	begin(argv[3]);
	for (i = 4; i < argc && addresses < 64; i++)
		address[addresses++] = strtoul(argv[i], NULL, 0);
	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run, (void *)i);
	for (i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%lu %lu %lu %lu %lu\n", taken, refused, whole, changed, uprobes);
	return 0;
}
