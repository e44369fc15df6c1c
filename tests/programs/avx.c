/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Vector registers live across blocks and calls: sixteen ymm in assembly, doubles and floats from the compiler. */
#include "check.h"

struct lanes {
	uint64_t lane[16][4];
};

/* avx.S: loads ymm0-15, `turns` times adds each to the next, calling avx_quiet in between; stores them. */
void avx_rotate(const struct lanes *in, struct lanes *out, long turns);

static void rotate_model(struct lanes *all, long turns)
{
	while (turns--)
		for (int r = 0; r < 16; r++)
			for (int l = 0; l < 4; l++)
				all->lane[(r + 1) % 16][l] += all->lane[r][l];
}

static void check_ymm(long turns)
{
	struct lanes in, out, expected;

	for (int r = 0; r < 16; r++)
		for (int l = 0; l < 4; l++)
			in.lane[r][l] = (uint64_t)(r * 4 + l + 1) * 0x9e3779b97f4a7c15u;
	expected = in;
	rotate_model(&expected, turns);
	avx_rotate(&in, &out, turns);
	for (int r = 0; r < 16; r++)
		CHECK(!memcmp(out.lane[r], expected.lane[r], 32), "ymm%d differs after %ld turns", r, turns);
}

NOINLINE double branchy(double x, double y, float z, int n);
NOINLINE double branchy(double x, double y, float z, int n)
{
	double sum = x;

	for (int i = 0; i < n; i++) {
		if (i & 1)
			sum += y * (double)i;
		else
			sum -= (double)(z * (float)i);
		if (sum > 1e6)
			sum -= 1e6;
		BARRIER();
	}
	return sum;
}

/* The same in integers: every value is a multiple of 1/4 small enough to be exact. */
static double branchy_model(long x4, long y4, long z4, int n)
{
	long sum = x4;

	for (int i = 0; i < n; i++) {
		sum += i & 1 ? y4 * i : -(z4 * i);
		if (sum > 4000000)
			sum -= 4000000;
	}
	return (double)sum / 4;
}

static void one_round(long amount)
{
	for (long i = 0; i < amount; i++) {
		double got = branchy(0.25 * (double)i, 1.75, 0.5f, 50);

		CHECK(got == branchy_model(i, 7, 2, 50), "doubles: %f for %ld", got, i);
		if (__builtin_cpu_supports("avx2"))
			check_ymm(i % 20 + 1);
	}
}

int main(int argc, char **argv)
{
	if (!__builtin_cpu_supports("avx2"))
		puts("skipped: this processor has no AVX2");
	return run_rounds(argc, argv, "avx", 2000, one_round);
}
