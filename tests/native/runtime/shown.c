/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * gilk_signal_enter() and gilk_signal_leave() by single steps, for a thread that was interrupted at one instruction of a
 * patch: whatever a tracer may see of the thread's context and stack on the way.
 *
 * Arguments: the code of the patch in hexadecimal digits; the offset in it at which the instruments' work is over; the
 * offset at which the thread was interrupted; the words of its stack from the stack pointer on, and the 16 registers in the
 * order of gregs and the flags, in hexadecimal digits.
 *
 * Prints a line for each different content: "enter" or "leave", and the context and the stack in hexadecimal digits.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "runtime/runtime.h"

#define TRAP_FLAG 0x100
#define CODE 0x400000UL
#define CONTEXT 304 /* bytes of struct ucontext as the kernel has it */
#define WORDS 40    /* of the thread's stack */

void gilk_signal_enter(const struct gilk_regs *regs, gilk_u32 iid);
void gilk_signal_leave(const struct gilk_regs *regs, gilk_u32 iid);

gilk_u64 gilk_key;

static struct {
	struct gilk_places head;
	struct gilk_row rows[4];
} table;
static char control[1 << 16] __attribute__((aligned(4096)));
static unsigned char patch[512];
static unsigned char seen[CONTEXT + 8 * WORDS], now[CONTEXT + 8 * WORDS];
static gilk_u64 frame[128] __attribute__((aligned(16))), stack[WORDS];
static const char *doing;

static gregset_t *registers(void)
{
	return &((ucontext_t *)(frame + 1))->uc_mcontext.gregs;
}

static void look(void)
{
	memcpy(now, frame + 1, CONTEXT);
	memcpy(now + CONTEXT, stack, sizeof(stack));
	if (!memcmp(now, seen, sizeof(now)))
		return;
	memcpy(seen, now, sizeof(now));
	printf("%s ", doing);
	for (unsigned i = 0; i < sizeof(now); i++)
		printf("%02x", now[i]);
	printf("\n");
}

static void on_step(int number, siginfo_t *info, void *state)
{
	(void)number;
	(void)info;
	(void)state;
	look();
}

static void stepped(int on)
{
	gilk_u64 flags = __builtin_ia32_readeflags_u64();

	__builtin_ia32_writeeflags_u64(on ? flags | TRAP_FLAG : flags & ~(gilk_u64)TRAP_FLAG);
}

static void read_code(const char *digits)
{
	unsigned byte;

	for (int n = 0; sscanf(digits + 2 * n, "%2x", &byte) == 1; n++)
		patch[n] = (unsigned char)byte;
}

static void read_words(char *text, gilk_u64 *words, int most)
{
	for (int n = 0; n < most && *text; n++)
		words[n] = strtoul(text, &text, 16);
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
	struct gilk_regs entered = {.rdx = (gilk_u64)(frame + 1), .rsp = (gilk_u64)frame};
	struct gilk_regs left = {.rsp = (gilk_u64)(frame + 1)};
	gilk_u64 given[17] = {0}, end;

	if (argc != 6)
		return 2;
	sigaction(SIGTRAP, &action, 0);
	read_code(argv[1]);
	end = (gilk_u64)patch + strtoul(argv[2], 0, 10);
	table.head = (struct gilk_places){3, 1, 1};
	table.rows[0] = (struct gilk_row){(gilk_u64)patch, CODE};
	table.rows[1] = (struct gilk_row){end, CODE | GILK_ROW_AFTER};
	table.rows[2] = (struct gilk_row){end + 16, 0};
	table.rows[3] = (struct gilk_row){CODE, (gilk_u64)patch};
	gilk_params = (struct gilk_params){.control = (struct gilk_control *)control, .places = &table.head};
	read_words(argv[4], stack, WORDS);
	read_words(argv[5], given, 17);
	for (int n = 0; n < 16; n++)
		(*registers())[n] = (greg_t)given[n];
	(*registers())[REG_EFL] = (greg_t)given[16];
	(*registers())[REG_RSP] = (greg_t)stack;
	(*registers())[REG_RIP] = (greg_t)(patch + strtoul(argv[3], 0, 10));
	printf("patch %lx %lx %lx\n", (unsigned long)patch, (unsigned long)stack, (unsigned long)(frame + 1));
	doing = "enter";
	look();
	stepped(1);
	gilk_signal_enter(&entered, 0);
	stepped(0);
	doing = "leave";
	stepped(1);
	gilk_signal_leave(&left, 0);
	stepped(0);
	look();
	return 0;
}
