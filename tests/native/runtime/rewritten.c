/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * gilk_signal_enter() and gilk_signal_leave() interrupted at each of their instructions, by single steps: what comes in
 * between gives the runtime two tables of places, the second of which takes the place of the first. Each has the
 * row that is looked up at another place, so a look-up that mixes two tables ends at another row.
 *
 * Prints how many calls were interrupted; a line for each that went wrong, and then exits with 1.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#include "runtime/runtime.h"

#define TRAP_FLAG 0x100
#define ROWS 200
#define PATCH 0x5000000UL
#define CODE 0x400000UL
#define LAST 150 /* the patch that is looked up, which is in all tables */

void gilk_signal_enter(const struct gilk_regs *regs, gilk_u32 iid);
void gilk_signal_leave(const struct gilk_regs *regs, gilk_u32 iid);

gilk_u64 gilk_key;

static struct table {
	struct gilk_places head;
	struct gilk_row rows[4 * ROWS];
} tables[2];
static char control[1 << 16] __attribute__((aligned(4096))), stack[4096] __attribute__((aligned(16)));
static volatile gilk_u64 step, stop;
static gilk_u64 version;

/* ROWS rows of both kinds, and some `more` below them. */
static void give(gilk_u64 more)
{
	struct table *table = &tables[++version % 2];
	gilk_u64 count = ROWS + more;

	*(volatile gilk_u64 *)&table->head.version = 0;
	table->head.patches = table->head.displaced = count;
	for (gilk_u64 i = 0; i < count; i++) {
		table->rows[i] = (struct gilk_row){PATCH + 16 * (i - more), CODE + 16 * (i - more)};
		table->rows[count + i] = (struct gilk_row){CODE + 16 * (i - more), PATCH + 16 * (i - more)};
	}
	*(volatile gilk_u64 *)&table->head.version = version;
	*(const struct gilk_places *volatile *)&gilk_params.places = &table->head;
}

static void on_step(int number, siginfo_t *info, void *state)
{
	ucontext_t *context = state;

	(void)number;
	(void)info;
	if (++step < stop)
		return;
	give(20);
	give(50);
	context->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

static void stepped(int on)
{
	gilk_u64 flags = __builtin_ia32_readeflags_u64();

	__builtin_ia32_writeeflags_u64(on ? flags | TRAP_FLAG : flags & ~(gilk_u64)TRAP_FLAG);
}

static gilk_u64 *rip(void)
{
	return (gilk_u64 *)((ucontext_t *)(stack + 1024))->uc_mcontext.gregs + REG_RIP;
}

/* Call one of the two with a context at the address `at`. Returns the address that it leaves there. */
static gilk_u64 led(int leave, gilk_u64 at)
{
	struct gilk_regs regs = {.rdx = (gilk_u64)stack + 1024, .rsp = (gilk_u64)stack + 1016};

	memset(stack, 0, sizeof(stack));
	*rip() = at;
	give(0);
	step = 0;
	if (leave)
		regs.rsp += 8;
	stepped(1);
	if (leave)
		gilk_signal_leave(&regs, 0);
	else
		gilk_signal_enter(&regs, 0);
	stepped(0);
	return *rip();
}

static int wrong(int leave)
{
	gilk_u64 from = (leave ? CODE : PATCH) + 16 * LAST, to = (leave ? PATCH : CODE) + 16 * LAST;
	gilk_u64 found = led(leave, from);

	if (found != to)
		printf("%s interrupted at %lu: led to %lx\n", leave ? "leave" : "enter", stop, found);
	return found != to;
}

int main(void)
{
	struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
	unsigned calls = 0, wrongs = 0;

	sigaction(SIGTRAP, &action, 0);
	gilk_params = (struct gilk_params){.control = (struct gilk_control *)control};
	for (int leave = 0; leave < 2; leave++) {
		stop = 1;
		do {
			wrongs += wrong(leave);
			calls += step >= stop;
		} while (step >= stop++);
	}
	printf("%u\n", calls);
	return wrongs != 0;
}
