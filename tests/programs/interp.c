/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A small stack-machine interpreter running Fibonacci: the classic hot loop around one switch. */
#include "check.h"

enum op { PUSH, ADD, SUB, MUL, LESS, DUP, SWAP, DROP, JUMP, JUMP_ZERO, LOAD, STORE, CALL, RETURN, HALT };

struct machine {
	long stack[64], memory[1024];
	int calls[64];
	long executed;
};

NOINLINE long run_machine(struct machine *m, const int *code);
NOINLINE long run_machine(struct machine *m, const int *code)
{
	long *top = m->stack, t;
	int *caller = m->calls;

	for (int pc = 0;;) {
		m->executed++;
		switch ((enum op)code[pc++]) {
		case PUSH: *++top = code[pc++]; break;
		case ADD: top--; top[0] += top[1]; break;
		case SUB: top--; top[0] -= top[1]; break;
		case MUL: top--; top[0] *= top[1]; break;
		case LESS: top--; top[0] = top[0] < top[1]; break;
		case DUP: top++; top[0] = top[-1]; break;
		case SWAP: t = top[0]; top[0] = top[-1]; top[-1] = t; break;
		case DROP: top--; break;
		case JUMP: pc = code[pc]; break;
		case JUMP_ZERO: pc = *top-- ? pc + 1 : code[pc]; break;
		case LOAD: top[0] = m->memory[top[0] & 1023]; break;
		case STORE: top -= 2; m->memory[top[2] & 1023] = top[1]; break;
		case CALL: *caller++ = pc + 1; pc = code[pc]; break;
		case RETURN: pc = *--caller; break;
		case HALT: return *top;
		}
	}
}

/* memory[0] = n; fib(n) by repeated addition: a in memory[1], b in memory[2]. */
static const int fibonacci[] = {
	/* 0 */ PUSH, 0, PUSH, 1, STORE, PUSH, 1, PUSH, 2, STORE,
	/* 10 */ PUSH, 0, LOAD, JUMP_ZERO, 22, CALL, 26, PUSH, 0, DROP, JUMP, 10,
	/* 22 */ PUSH, 1, LOAD, HALT,
	/* 26 */ PUSH, 1, LOAD, PUSH, 2, LOAD, DUP, PUSH, 1, STORE, ADD, PUSH, 2, STORE,
	/* 40 */ PUSH, 0, LOAD, PUSH, 1, SUB, PUSH, 0, STORE, RETURN,
};

static long fibonacci_model(long n)
{
	long a = 0, b = 1, t;

	for (; n--; a = t) {
		t = b;
		b += a;
	}
	return a;
}

static void one_round(long amount)
{
	static struct machine m;

	for (long i = 0; i < amount; i++) {
		memset(&m, 0, sizeof m);
		m.memory[0] = i % 80;
		CHECK(run_machine(&m, fibonacci) == fibonacci_model(i % 80), "fibonacci(%ld)", i % 80);
	}
}

int main(int argc, char **argv)
{
	return run_rounds(argc, argv, "interp", 300, one_round);
}
