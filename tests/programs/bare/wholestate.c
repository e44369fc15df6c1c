/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Steps through a function, which calls another one at its end, instruction by instruction, and compares what a handler of SIGTRAP sees there with what it
 * sees in an equal function, `plain`, which has no instruments: all general registers, the stack pointer and the flags.
 *
 * With the argument `change`, the handler also adds 1 to r12 at each step, and to rax: what the function computes has all
 * that in it.
 *
 * It waits until no step is outside the two functions, and then makes 100 rounds. Prints how many steps there were
 * more than without instruments, at least, in each.
 */
#include "../check.h"

#include <signal.h>
#include <ucontext.h>

#define COMPARED 16 /* all general registers: REG_R8 to REG_RSP */
#define FLAGS 0x8d5 /* those of arithmetic */
#define FLAGS_FROM 7 /* offset from which on the functions need the flags that they have */
#define LIMIT 256    /* bytes of a function, at most */

/* Registers that a function begins with, and those with which it ends, by their numbers in gregs; the flags are last. */
long long whole_given[COMPARED + 1], whole_left[COMPARED + 1];

#define OF(name) \
	".globl " #name ", " #name "_stores, " #name "_end\n.type " #name ",@function\n" #name ":\n" \
	"\t.cfi_startproc\n" \
	"\tlea 1(%rax), %rax\n\tadd %rcx, %rdx\n\tjo 2f\n" \
	"1:\tjc 3f\n\tlea 7(%rbx), %rbx\n" \
	"3:\tadc $5, %rsi\n\tlea 9(%r9), %r9\n\tjs 4f\n\tlea 3(%rdi), %rdi\n" \
	"4:\tadc %r10, %r11\n\tjmp 5f\n" \
	"2:\tlea 1(%r8), %r8\n\tjmp 1b\n" \
	"5:\tsbb $3, %r13\n\tnop\n\tnop\n\tnop\n" \
	#name "_stores:\n" \
	"\tmov %r8, whole_left(%rip)\n\tmov %r9, whole_left+8(%rip)\n\tmov %r10, whole_left+16(%rip)\n" \
	"\tmov %r11, whole_left+24(%rip)\n\tmov %r12, whole_left+32(%rip)\n\tmov %r13, whole_left+40(%rip)\n" \
	"\tmov %r14, whole_left+48(%rip)\n\tmov %r15, whole_left+56(%rip)\n\tmov %rdi, whole_left+64(%rip)\n" \
	"\tmov %rsi, whole_left+72(%rip)\n\tmov %rbp, whole_left+80(%rip)\n\tmov %rbx, whole_left+88(%rip)\n" \
	"\tmov %rdx, whole_left+96(%rip)\n\tmov %rax, whole_left+104(%rip)\n\tmov %rcx, whole_left+112(%rip)\n" \
	"\tmov %rsp, whole_left+120(%rip)\n\tlahf\n\tseto %al\n\tmov %rax, whole_left+128(%rip)\n" \
	"\tcall whole_leaf\n\tret\n\t.cfi_endproc\n" #name "_end:\n.size " #name ",.-" #name "\n"

extern char plain[], plain_stores[], plain_end[], walked[], walked_stores[], walked_end[], whole_leaf[];
void whole_go(const char *function);

__asm__(".text\n.p2align 6\n" OF(plain) ".p2align 6\n" OF(walked)
	".globl whole_leaf\n.type whole_leaf,@function\nwhole_leaf:\n\tnop\n\tret\n.size whole_leaf,.-whole_leaf\n"
	/* Load the registers, set the trap flag, and jump to the function. */
	".globl whole_go\n.type whole_go,@function\nwhole_go:\n"
	"\tpush %rbx\n\tpush %rbp\n\tpush %r12\n\tpush %r13\n\tpush %r14\n\tpush %r15\n"
	"\tlea whole_back(%rip), %rax\n\tpush %rax\n\tpush %rdi\n"
	"\tmov whole_given(%rip), %r8\n\tmov whole_given+8(%rip), %r9\n\tmov whole_given+16(%rip), %r10\n"
	"\tmov whole_given+24(%rip), %r11\n\tmov whole_given+32(%rip), %r12\n\tmov whole_given+40(%rip), %r13\n"
	"\tmov whole_given+48(%rip), %r14\n\tmov whole_given+56(%rip), %r15\n\tmov whole_given+64(%rip), %rdi\n"
	"\tmov whole_given+72(%rip), %rsi\n\tmov whole_given+80(%rip), %rbp\n\tmov whole_given+88(%rip), %rbx\n"
	"\tmov whole_given+96(%rip), %rdx\n\tmov whole_given+104(%rip), %rax\n\tmov whole_given+112(%rip), %rcx\n"
	"\tpushf\n\torq $0x100, (%rsp)\n\tpopf\n\tret\n"
	"whole_back:\n\tpushf\n\tandq $~0x100, (%rsp)\n\tpopf\n"
	"\tpop %r15\n\tpop %r14\n\tpop %r13\n\tpop %r12\n\tpop %rbp\n\tpop %rbx\n\tret\n"
	".size whole_go,.-whole_go\n");

struct seen {
	long long registers[COMPARED], flags;
	int is_known;
};

static struct seen expected[LIMIT];
static volatile long steps, outside, bad, added;
static volatile long long bad_rip;
static volatile int bad_register;
static int learning, changes;

static void compare(const struct seen *wanted, const greg_t *now, long long rip)
{
	for (int n = 0; n < COMPARED; n++)
		if (wanted->registers[n] != now[n] && !(changes && (n == REG_R12 || n == REG_RAX))) {
			bad_register = n;
			bad_rip = rip;
			bad++;
			return;
		}
	if (!changes && rip >= FLAGS_FROM && (wanted->flags ^ now[REG_EFL]) & FLAGS) {
		bad_register = REG_EFL;
		bad_rip = rip;
		bad++;
	}
}

static void learn(struct seen *wanted, const greg_t *now)
{
	for (int n = 0; n < COMPARED; n++)
		wanted->registers[n] = now[n];
	wanted->flags = now[REG_EFL];
	wanted->is_known = 1;
}

static void on_step(int number, siginfo_t *info, void *raw)
{
	greg_t *now = ((ucontext_t *)raw)->uc_mcontext.gregs;
	char *rip = (char *)now[REG_RIP], *begin = learning ? plain : walked;

	(void)number;
	(void)info;
	steps++;
	if (rip >= begin && rip < begin + (plain_stores - plain)) {
		struct seen *wanted = &expected[rip - begin];

		if (learning)
			learn(wanted, now);
		else if (wanted->is_known)
			compare(wanted, now, rip - begin);
		else
			bad++;
		if (changes && !learning) {
			now[REG_R12]++;
			now[REG_RAX]++;
			added++;
		}
	} else if (rip < begin || rip >= begin + (plain_end - plain))
		outside += rip < whole_leaf || rip > (char *)whole_go + 512;
}

static void go(const char *function)
{
	steps = outside = bad = added = 0;
	whole_go(function);
}

/* One pass with each of several values. Returns how many more steps than without instruments there were at least. */
static long pass(int round, int strict)
{
	long long left[COMPARED + 1];
	long plainly, least = 1L << 40;

	for (int n = 0; n < COMPARED; n++)
		whole_given[n] = (long long)(0x1234567890abcdefu * (unsigned)(n + 3 * round + 1)) ^ (round & 4 ? INT64_MIN : 0);
	learning = 1;
	memset(expected, 0, sizeof expected);
	go(plain);
	plainly = steps;
	memcpy(left, whole_left, sizeof left);
	learning = 0;
	go(walked);
	if (outside || steps <= plainly)
		return strict ? -1 : 0;
	CHECK(!bad, "%ld of %ld steps saw another state, the last at +%#llx register %d", bad, steps, bad_rip, bad_register);
	if (changes) {
		left[REG_R12] += added;
		left[REG_RAX] += added;
		left[COMPARED] = whole_left[COMPARED];
	}
	for (int n = 0; n <= COMPARED; n++)
		CHECK(left[n] == whole_left[n], "register %d is %#llx, not %#llx", n, whole_left[n], left[n]);
	if (steps - plainly < least)
		least = steps - plainly;
	return least;
}

int main(int argc, char **argv)
{
	struct sigaction step = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };
	long least = 1L << 40;

	changes = argc > 1 && !strcmp(argv[1], "change");
	sigaction(SIGTRAP, &step, NULL);
	alarm(300);
	for (int round = 0; !pass(round & 7, 0); round++)
		;
	for (int round = 0; round < 100; round++) {
		long more = pass(round, 1);

		CHECK(more > 0, "%ld of %ld steps were outside", outside, steps);
		if (more < least)
			least = more;
	}
	printf("ok wholestate %ld\n", least);
	return 0;
}
