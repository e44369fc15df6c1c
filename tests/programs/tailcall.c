/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Tail calls: mutual, indirect, conditional, to a PLT entry and through one-jump functions. The stack must not grow. */
#include "check.h"

static uintptr_t shallow, deep;

static inline __attribute__((always_inline)) void note_stack(void)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	shallow = here > shallow ? here : shallow;
	deep = here < deep ? here : deep;
}

NOINLINE int is_odd(unsigned n);
NOINLINE int is_even(unsigned n);
NOINLINE int is_even(unsigned n)
{
	note_stack();
	return n == 0 ? 1 : is_odd(n - 1);
}

NOINLINE int is_odd(unsigned n)
{
	note_stack();
	if (n == 0)
		return 0;
	return is_even(n - 1);
}

typedef long state_function(long left, long sum);
static state_function state_a, state_b, state_c, finish;
static state_function *volatile states[] = { state_a, state_b, state_c, finish };

NOINLINE static long state_a(long left, long sum)
{
	note_stack();
	return states[left > 0 ? 1 : 3](left - 1, sum + 1);
}

NOINLINE static long state_b(long left, long sum)
{
	return states[left > 0 ? 2 : 3](left - 1, sum * 3 % 1000003);
}

NOINLINE static long state_c(long left, long sum)
{
	if (left & 1)
		return states[0](left - 1, sum ^ 5);
	return states[1](left - 1, sum + 2);
}

NOINLINE static long finish(long left, long sum)
{
	return sum + left;
}

static long states_model(long left, long sum)
{
	for (int state = 0; state != 3; left--) {
		if (state == 0) {
			sum++;
			state = left > 0 ? 1 : 3;
		} else if (state == 1) {
			sum = sum * 3 % 1000003;
			state = left > 0 ? 2 : 3;
		} else {
			sum = left & 1 ? sum ^ 5 : sum + 2;
			state = left & 1 ? 0 : 1;
		}
	}
	return sum + left;
}

/* tail_thunk is a single jump; the next has a conditional jump out of the function. */
long tail_thunk(long left, long sum);
long tail_maybe(long left, long sum);
long tail_finish(long left, long sum);
NOINLINE long tail_finish(long left, long sum)
{
	return finish(left, sum) * 2;
}

__asm__(".text\n.globl tail_thunk,tail_maybe\n"
	".type tail_thunk,@function\ntail_thunk:\n\t.cfi_startproc\n\tjmp tail_maybe\n\t.cfi_endproc\n"
	".size tail_thunk,.-tail_thunk\n"
	".type tail_maybe,@function\ntail_maybe:\n\t.cfi_startproc\n\ttest $1, %dil\n\tjnz tail_finish\n"
	"\tlea 100(%rsi), %rax\n\tret\n\t.cfi_endproc\n.size tail_maybe,.-tail_maybe\n");

NOINLINE size_t tail_to_libc(const char *text);
NOINLINE size_t tail_to_libc(const char *text)
{
	note_stack();
	return strlen(text + 1);
}

static void one_round(long amount)
{
	const char *text = "tail call";

	__asm__ volatile("" : "+r"(text));
	shallow = 0;
	deep = UINTPTR_MAX;
	for (long i = 0; i < amount; i++) {
		CHECK(is_even((unsigned)i) == !(i & 1), "is_even(%ld)", i);
		CHECK(states[0](i, i) == states_model(i, i), "states(%ld)", i);
		CHECK(tail_thunk(i, 7) == (i & 1 ? 2 * (i + 7) : 107), "tail_thunk(%ld)", i);
		CHECK(tail_to_libc(text) == 8, "strlen");
	}
	CHECK(shallow - deep < 4096, "the stack grew by %lu bytes", (unsigned long)(shallow - deep));
}

int main(int argc, char **argv)
{
	return run_rounds(argc, argv, "tailcall", 1000, one_round);
}
