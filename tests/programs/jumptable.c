/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Dense and shifted switches, a switch inside a loop, and an interpreter by computed goto. */
#include "check.h"

NOINLINE unsigned dense(unsigned code, unsigned x);
NOINLINE unsigned dense(unsigned code, unsigned x)
{
	switch (code) {
	case 0: x += 11; break;
	case 1: x *= 13; break;
	case 2: x ^= x >> 3; break;
	case 3: x -= 17; break;
	case 4: x = ~x; break;
	case 5: x <<= 2; break;
	case 6: x |= 0x100; break;
	case 7: x &= 0xffff; break;
	case 8: x = x / 3; break;
	case 9: x = x % 1001; break;
	default: return 1;
	}
	BARRIER();
	return x + code;
}

/* Negative and shifted cases, holes, several labels for one block, 8-bit selector. */
NOINLINE int shifted(signed char code, int x);
NOINLINE int shifted(signed char code, int x)
{
	switch (code) {
	case -4: return x - 4;
	case -3: return x * 5;
	case -2:
	case -1: x += 2; /* fall through */
	case 0: return x ^ 0x33;
	case 2: return x << 1;
	case 3: return x + 1000;
	case 4: return -x;
	case 6: return x | 1;
	case 7: return x & ~1;
	default: return code;
	}
}

/* Every value of three bits: no bounds check is needed. */
NOINLINE unsigned masked(unsigned x);
NOINLINE unsigned masked(unsigned x)
{
	unsigned sum = 0;

	for (; x; x >>= 3) {
		switch (x & 7) {
		case 0: sum += 3; break;
		case 1: sum ^= x; break;
		case 2: sum = sum * 5 + 1; break;
		case 3: sum -= x; break;
		case 4: sum = sum << 1 | sum >> 31; break;
		case 5: sum += sum >> 4; break;
		case 6: sum = ~sum; break;
		case 7: sum *= 9; break;
		}
		BARRIER();
	}
	return sum;
}

enum { ADD, SUB, DOUBLE, SKIP_IF_ODD, NEGATE, JUMP_BACK, HALT };

NOINLINE long interpret(const unsigned char *code, long x);
NOINLINE long interpret(const unsigned char *code, long x)
{
	static const void *const labels[] = { &&add, &&sub, &&twice, &&skip, &&negate, &&back, &&halt };
	const unsigned char *start = code;
	long laps = 0;

#define NEXT goto *labels[*code++]
	NEXT;
add:
	x += 5;
	NEXT;
sub:
	x -= 3;
	NEXT;
twice:
	x *= 2;
	NEXT;
skip:
	code += x & 1;
	NEXT;
negate:
	x = -x;
	NEXT;
back:
	if (++laps < 4)
		code = start;
	NEXT;
halt:
	return x + laps;
#undef NEXT
}

static long interpret_model(const unsigned char *code, long x)
{
	long laps = 0;

	for (int i = 0; code[i] != HALT;) {
		int op = code[i++];

		x = op == ADD ? x + 5 : op == SUB ? x - 3 : op == DOUBLE ? x * 2 : op == NEGATE ? -x : x;
		i += op == SKIP_IF_ODD && x & 1;
		laps += op == JUMP_BACK;
		if (op == JUMP_BACK && laps < 4)
			i = 0;
	}
	return x + laps;
}

static unsigned dense_model(unsigned c, unsigned x)
{
	if (c > 9)
		return 1;
	return c + (c == 0 ? x + 11 : c == 1 ? x * 13 : c == 2 ? x ^ x >> 3 : c == 3 ? x - 17 : c == 4 ? ~x : c == 5 ? x << 2 :
		    c == 6 ? x | 0x100 : c == 7 ? x & 0xffff : c == 8 ? x / 3 : x % 1001);
}

static int shifted_model(int c, int x)
{
	return c == -4 ? x - 4 : c == -3 ? x * 5 : c == -2 || c == -1 ? (x + 2) ^ 0x33 : c == 0 ? x ^ 0x33 : c == 2 ? x << 1 :
	       c == 3 ? x + 1000 : c == 4 ? -x : c == 6 ? x | 1 : c == 7 ? x & ~1 : c;
}

static unsigned masked_model(unsigned x)
{
	unsigned s = 0;

	for (; x; x >>= 3) {
		unsigned c = x & 7;

		s = c == 0 ? s + 3 : c == 1 ? s ^ x : c == 2 ? s * 5 + 1 : c == 3 ? s - x : c == 4 ? s << 1 | s >> 31 :
		    c == 5 ? s + (s >> 4) : c == 6 ? ~s : s * 9;
	}
	return s;
}

static void one_round(long amount)
{
	static const unsigned char program[] = { ADD, SKIP_IF_ODD, DOUBLE, SUB, SKIP_IF_ODD, NEGATE, ADD, JUMP_BACK, HALT };

	for (long i = 0; i < amount; i++) {
		unsigned x = (unsigned)i * 2654435761u;

		for (unsigned code = 0; code < 12; code++)
			CHECK(dense(code, x) == dense_model(code, x), "dense(%u, %u)", code, x);
		for (int code = -6; code < 10; code++)
			CHECK(shifted((signed char)code, (int)i) == shifted_model(code, (int)i), "shifted(%d, %ld)", code, i);
		CHECK(masked(x) == masked_model(x), "masked(%u)", x);
		CHECK(interpret(program, i) == interpret_model(program, i), "interpret(%ld)", i);
	}
}

int main(int argc, char **argv)
{
	return run_rounds(argc, argv, "jumptable", 3000, one_round);
}
