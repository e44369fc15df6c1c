/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Walks of the stack at every instruction that some code runs, beside those of libgcc's unwinder.
 *
 * The processor's trap flag brings a signal after each instruction. Its handler walks the interrupted stack by
 * native/runtime/d/stack.h, and with _Unwind_Backtrace(), from the signal's frame on.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "runtime/d/program.h"

#define MOST 200

struct stack {
	gd_u64 count;
	gd_u64 frame[MOST];
};

struct steps {
	gd_u64 all;
	gd_u64 same;
	gd_u64 wrong;
	gd_u64 unknown; /* libgcc did not get to the end, or not by way of all callers */
	struct stack ours, theirs; /* of the first that was wrong */
};

struct steps steps;
static unsigned char *memory;
static struct gd_layout layout;
gd_u64 wanted; /* where the innermost frame is */
static gd_u64 outermost;

static _Unwind_Reason_Code note(struct _Unwind_Context *context, void *to)
{
	struct stack *stack = to;
	int interrupted;
	gd_u64 pc = _Unwind_GetIPInfo(context, &interrupted);

	if (pc && (stack->count || (interrupted && pc == wanted)) && stack->count < MOST)
		stack->frame[stack->count++] = pc;
	return _URC_NO_REASON;
}

static void registers(const ucontext_t *context, gd_u64 *to)
{
	static const int order[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI, REG_R8,
				    REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP, REG_EFL};
	unsigned int n;

	for (n = 0; n < sizeof order / sizeof *order; n++)
		to[n] = (gd_u64)context->uc_mcontext.gregs[order[n]];
}

static int have_same_callers(const struct stack *a, const struct stack *b)
{
	return a->count == b->count && !memcmp(a->frame + 1, b->frame + 1, 8 * (a->count - 1));
}

/*
 * GCC says at the end of a realigned frame that RBP is saved where RBP points, when it is the caller's again: libgcc
 * then leaves out a caller, and gets to the end. What it said of the callers an instruction before holds.
 */
static void compare(const struct stack *ours, const struct stack *theirs)
{
	static struct stack before;

	steps.all++;
	if (!theirs->count || theirs->frame[theirs->count - 1] != outermost) {
		steps.unknown++;
	} else if (ours->count == theirs->count && !memcmp(ours->frame, theirs->frame, 8 * ours->count)) {
		steps.same++;
		before = *theirs;
	} else if (ours->count && theirs->count < before.count && have_same_callers(ours, &before)) {
		steps.unknown++;
	} else if (!steps.wrong++) {
		steps.ours = *ours;
		steps.theirs = *theirs;
	}
}

static void walk(const gd_u64 *regs, struct stack *ours)
{
	struct gd_event event = {.regs = regs, .tid = 1};
	struct gd_context context;

	gd_begin(&context, memory, &layout, &event);
	ours->count = gd_walk_stack(&context, ours->frame, MOST);
	gd_end(&context);
}

static sigjmp_buf failed;

/* libgcc believes all that the tables say, and what GCC says of the ends of some functions is wrong. */
static void on_fault(int number)
{
	siglongjmp(failed, number);
}

static void on_step(int number, siginfo_t *info, void *context)
{
	static struct stack ours, theirs;
	gd_u64 regs[18];

	(void)number;
	(void)info;
	registers(context, regs);
	wanted = regs[16];
	theirs.count = 0;
	if (!sigsetjmp(failed, 1))
		_Unwind_Backtrace(note, &theirs);
	else
		theirs.count = 0;
	if (!outermost) { /* the first one of all is right at the beginning, and begins what it is compared with */
		outermost = theirs.frame[theirs.count - 1];
		return;
	}
	walk(regs, &ours);
	compare(&ours, &theirs);
}

void steps_on(void)
{
	__asm__ volatile("pushfq; orl $0x100, (%%rsp); popfq" : : : "cc", "memory");
}

void steps_off(void)
{
	__asm__ volatile("pushfq; andl $~0x100, (%%rsp); popfq" : : : "cc", "memory");
}

/* `at`: the memory of a program, laid out and with tables; `how`: its struct gd_layout. */
struct steps *run(unsigned char *at, const struct gd_layout *how, void (*what)(void))
{
	struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_NODEFER};

	memory = at;
	layout = *how;
	sigaction(SIGTRAP, &action, 0);
	signal(SIGSEGV, on_fault);
	what();
	steps_off();
	return &steps;
}

static gd_u64 dice(gd_u64 *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* What might lie on a stack: addresses of it, of code, and anything. */
static gd_u64 content(gd_u64 *seed, gd_u64 low, gd_u64 size)
{
	gd_u64 value = dice(seed);

	switch (value >> 60 & 3) {
	case 0:
		return low + (value & (size - 1) & -8UL);
	case 1:
		return (gd_u64)&run + (value & 0xfff) - 0x800;
	case 2:
		return (gd_u64)&_Unwind_Backtrace + (value & 0x3fff) - 0x2000;
	}
	return value & 1 ? value : value & 0xffff;
}

/*
 * Walks of stacks that hold anything, from any address, with any registers, between pages that are not there; in every
 * other round the tables are scribbled on as well. Returns how many frames were found.
 */
gd_u64 scribble(unsigned char *at, const struct gd_layout *how, gd_u64 seed, gd_u64 rounds)
{
	gd_u64 size = 4 * GILK_PAGE, frames = 0, round, n, regs[18];
	unsigned char *room = mmap(0, 3 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	gd_u64 *stack = (gd_u64 *)(room + size), *tables = (gd_u64 *)(at + how->unwind);
	static struct stack found;

	memory = at;
	layout = *how;
	mprotect(stack, size, PROT_READ | PROT_WRITE);
	for (round = 0; round < rounds; round++) {
		for (n = 0; n < size / 8; n++)
			stack[n] = content(&seed, (gd_u64)stack, size);
		for (n = 0; n < 18; n++)
			regs[n] = content(&seed, (gd_u64)stack, size);
		regs[4] = (gd_u64)stack + (dice(&seed) & (size - 1) & -8UL);
		if (round & 1)
			tables[dice(&seed) % (dice(&seed) & 1 ? 8 : how->unwind_size / 8)] = dice(&seed) >> (dice(&seed) & 63);
		walk(regs, &found);
		frames += found.count;
	}
	munmap(room, 3 * size);
	return frames;
}
