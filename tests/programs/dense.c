/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Functions without a byte to spare: nothing is aligned, so that each ends right where the next one begins, with only a
 * return behind its last call. They begin with all kinds of instructions, whose bytes a jump may have to share.
 */
#include "check.h"

#define ROUNDS 400

struct list {
	struct list *next;
	unsigned char kind, size;
	long value;
};

static long calls;

NOINLINE static long count(long n) { calls++; return n; }
NOINLINE static long twice(long n) { return count(n) + n; }
NOINLINE static long passed(long n) { return count(n); }
NOINLINE static void touched(void) { count(0); }
NOINLINE static long kind_of(const struct list *l) { return count(l->kind); }
NOINLINE static long size_of(const struct list *l) { touched(); return l->size; }
NOINLINE static long value_or(const struct list *l, long otherwise) { return l ? count(l->value) : otherwise; }
NOINLINE static long three(void) { return count(3); }
NOINLINE static void three_times(void) { touched(); touched(); touched(); }
NOINLINE static long zero(long unused UNUSED) { return 0; }
NOINLINE static long is_small(unsigned n) { return n < 7 ? passed(1) : 0; }
NOINLINE static long least(long a, long b) { return a < b ? passed(a) : b; }
NOINLINE static long bit(unsigned long set, int n) { return count(set >> n & 1); }

NOINLINE static long length(const struct list *l)
{
	long n = 0;

	for (; l; l = l->next)
		n += is_small(l->kind) + 1;
	return n;
}

NOINLINE static long sum(const struct list *l) { return l ? value_or(l, 0) + sum(l->next) : 0; }
NOINLINE static long power(long base, int n) { return n ? base * power(base, n - 1) : three() - 2; }
NOINLINE static void chained(void) { three_times(); }
NOINLINE static int parity(int n) { return n & 1 ? !zero(n) : (int)zero(n); }
NOINLINE static long most(long a, long b) { long c = least(a, b); return a + b - c; }
NOINLINE static char *last_of(char *text) { touched(); return text[0] ? text + strlen(text) - 1 : text; }

static void check_all(int n)
{
	char text[] = "dense";
	struct list tail = { 0, 9, 2, n }, head = { &tail, 3, 5, 2L * n };

	calls = 0;
	CHECK(twice(n) == 2L * n, "twice(%d)", n);
	CHECK(kind_of(&head) == 3 && size_of(&tail) == 2, "kind or size");
	CHECK(value_or(&tail, 1) == n && value_or(0, 1) == 1, "value_or");
	CHECK(length(&head) == 3 && sum(&head) == 3L * n, "a list of %d", n);
	CHECK(power(3, 4) == 81 && bit(5, 2) == 1 && bit(5, 1) == 0, "power or bit");
	CHECK(parity(n) == (n & 1) && most(n, 5) == (n > 5 ? n : 5), "parity or most");
	CHECK(*last_of(text) == 'e', "last_of");
	chained();
	/* twice, kind_of, size_of, value_or; is_small once; sum twice; power; bit twice; least if it calls; last_of; chained */
	CHECK(calls == 4 + 1 + 2 + 1 + 2 + (n < 5) + 1 + 3, "%ld calls for %d", calls, n);
}

static void one_round(long amount)
{
	for (long n = 0; n < amount; n++)
		check_all((int)n);
}

int main(int argc, char **argv)
{
	return run_rounds(argc, argv, "dense", ROUNDS, one_round);
}
