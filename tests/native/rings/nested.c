/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * ilk_reserve_slow() interrupted at each of its instructions, by single steps, as an NMI
 * would: what comes in between makes records of its own, and is gone. Afterwards every record is
 * in the ring or counted as lost, and no chunk but the last has a place that nobody fills.
 *
 * nested CLASS FLIGHT LAPS BURST TIMES
 *	CLASS of the record, FLIGHT 0 or 1, LAPS how many chunks were full before, BURST
 *	records made by each interruption, TIMES one or two interruptions of each call
 * Prints how many calls were interrupted; a line for each that went wrong, and then exits with 1.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "kernel.h"

#define CHUNKS 4u
#define TRAP_FLAG 0x100

extern struct ilk_ring ilk_rings[ILK_RINGS];

static u8 memory[CHUNKS * ILK_CHUNK] __attribute__((aligned(ILK_CHUNK)));
static u64 numbers[CHUNKS], tail;
static struct ilk_ring_head head;
static struct ilk_buffers buffers;
static struct ilk_ring *ring;
static u32 which, size, burst;
static volatile u64 step, first_stop, second_stop;
static u64 tries;

static void one_record(void)
{
	u64 at = ilk_reserve_slow(which);

	tries++;
	if (at)
		((volatile u32 *)at)[2] = 1; /* its iid */
}

static void on_step(int number, siginfo_t *info, void *state)
{
	ucontext_t *context = state;

	(void)number;
	(void)info;
	step++;
	if (step == first_stop || step == second_stop)
		for (u32 i = 0; i < burst; i++)
			one_record();
	if (step >= second_stop)
		context->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

static void stepped(bool on)
{
	u64 flags = __builtin_ia32_readeflags_u64();

	__builtin_ia32_writeeflags_u64(on ? flags | TRAP_FLAG : flags & ~(u64)TRAP_FLAG);
}

static void start(u32 flight, u32 laps)
{
	memset(memory, 0, sizeof(memory));
	memset(numbers, 0, sizeof(numbers));
	head = (struct ilk_ring_head){};
	buffers = (struct ilk_buffers){ .flags = flight ? ILK_FLIGHT : 0, .watermark = 1 };
	tail = tries = step = 0;
	*ring = (struct ilk_ring){ .base = (u64)memory,
				   .chunks = CHUNKS,
				   .head = &head,
				   .numbers = numbers,
				   .tail = &tail,
				   .buffers = &buffers,
				   .wpos = (u64)memory + sizeof(memory) };
	for (u32 i = 0; i < laps * (ILK_CHUNK / size); i++) {
		one_record();
		tail = ring->entered * ILK_CHUNK; /* all is read at once */
	}
}

/* Records in the chunk at `place`; -1: there is one that nobody fills. */
static int filled(u32 place, bool last)
{
	u64 chunk = (u64)memory + place * ILK_CHUNK, end = chunk + ILK_CHUNK;
	int count = 0;

	if (last && ring->wpos > chunk && ring->wpos < end)
		end = ring->wpos;
	for (u64 at = chunk; at < end; at += size, count++)
		if (!((u32 *)at)[2])
			return -1;
	return count;
}

/* Whether everything is accounted for; chunks that were given up are full by definition. */
static bool whole(void)
{
	u64 found = 0, there = 0;

	for (u32 place = 0; place < CHUNKS; place++) {
		int count = numbers[place] ? filled(place, numbers[place] == ring->entered) : 0;

		if (count < 0)
			return false;
		found += count;
		there += numbers[place] != 0;
	}
	found += (ring->entered - there) * (ILK_CHUNK / size);
	return !ring->entering && head.entered == ring->entered && found + head.lost == tries;
}

/* How many instructions the call had; 0: something is wrong. */
static u64 interrupted(u32 flight, u32 laps, u64 first, u64 second)
{
	start(flight, laps);
	first_stop = first;
	second_stop = second;
	stepped(true);
	one_record();
	stepped(false);
	if (!whole()) {
		printf("interrupted at %lu and %lu: entered %lu, lost %lu, tries %lu\n", first, second,
		       ring->entered, head.lost, tries);
		return 0;
	}
	return step;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };
	u32 flight, laps, times;
	u64 calls = 0, wrong = 0, steps;

	if (argc != 6)
		return 2;
	which = atoi(argv[1]);
	flight = atoi(argv[2]);
	laps = atoi(argv[3]);
	burst = atoi(argv[4]);
	times = atoi(argv[5]);
	size = ilk_class_size(which);
	ring = &ilk_rings[which];
	sigaction(SIGTRAP, &action, NULL);
	steps = interrupted(flight, laps, ~0ul - 1, ~0ul);
	for (u64 first = 1; first <= steps; first++)
		for (u64 second = first; second <= (times > 1 ? steps : first); second++, calls++)
			wrong += !interrupted(flight, laps, first, second);
	printf("%lu\n", calls);
	return wrong || !steps;
}
