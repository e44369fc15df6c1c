/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * With -fipa-ra a caller keeps values in caller-saved registers over a call, because it knows what the callee
 * leaves alone. An instrument that trusts the ABI at the callee's entry or return destroys these values.
 * test_programs.py checks in the code that this happens: ipara_caller neither saves nor spills anything.
 */
#include "check.h"

/* Clobbers one register besides flags. */
static __attribute__((noinline, noclone)) long ipara_callee(long x)
{
	if (x & 1)
		x = x * 3 + 1;
	else
		x = x >> 1;
	__asm__ volatile("" : "+r"(x));
	if (x > 100)
		x -= 100;
	return x;
}

NOINLINE long ipara_caller(long a, long b, long c, long d, long e, long f);
NOINLINE long ipara_caller(long a, long b, long c, long d, long e, long f)
{
	long first = ipara_callee(a);
	long second = ipara_callee(first + b);

	return first + second * 3 + b * 5 + c * 7 + d * 11 + e * 13 + f * 17;
}

static long callee_model(long x)
{
	x = x & 1 ? x * 3 + 1 : x >> 1;
	return x > 100 ? x - 100 : x;
}

/* Vector registers too. */
static __attribute__((noinline, noclone)) double ipara_leaf(double x)
{
	if (x > 10.0)
		x -= 10.0;
	__asm__ volatile("" : "+x"(x));
	return x + 1.0;
}

NOINLINE double ipara_vector(double a, double b, double c, double d);
NOINLINE double ipara_vector(double a, double b, double c, double d)
{
	double first = ipara_leaf(a);

	return ipara_leaf(first + b) + b * 2.0 + c * 4.0 + d * 8.0;
}

static double leaf_model(double x)
{
	return (x > 10.0 ? x - 10.0 : x) + 1.0;
}

static void one_round(long amount)
{
	for (long i = 0; i < amount; i++) {
		long first = callee_model(i), second = callee_model(first + 2);
		double x = (double)(i % 64), y = leaf_model(leaf_model(x) + 2.0) + 4.0 + 12.0 + 32.0;

		CHECK(ipara_caller(i, 2, 3, 4, 5, 6) == first + second * 3 + 10 + 21 + 44 + 65 + 102, "integers, %ld", i);
		CHECK(ipara_vector(x, 2.0, 3.0, 4.0) == y, "doubles, %ld", i);
	}
}

int main(int argc, char **argv)
{
	return run_rounds(argc, argv, "ipara", 100000, one_round);
}
