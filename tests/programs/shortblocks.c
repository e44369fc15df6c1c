/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Calls the functions of shortblocks.S and compares with what they are meant to compute. */
#include "check.h"

int sb_ones(int n), sb_pushes(int n), sb_twos(int n), sb_threes(int n), sb_loopne(int n), sb_overlap(int n);
int sb_flags(int n), sb_entry_loop(int n, int start), sb_table(int n), sb_lock(int *p, int shared);
long sb_loop(long n), sb_sum(long n), sb_string(char *to, const char *from, long n);
int sb_adc(uint64_t *to, const uint64_t *a, const uint64_t *b, long words);
void sb_tiny1(void), sb_tiny2(void);
int sb_tiny3(long unused1, long unused2, int value);

static void check_ones(void)
{
	/* From 0: 101 and 2 change places, then 2 and 3, then 3 and 101. */
	CHECK(sb_ones(0) == 101, "sb_ones(0) is %d", sb_ones(0));
	CHECK(sb_ones(1) == 1, "sb_ones(1) is %d", sb_ones(1));
	for (int n = 2; n <= 5; n++)
		CHECK(sb_ones(n) == 2, "sb_ones(%d) is %d", n, sb_ones(n));
	CHECK(sb_ones(6) == 1, "sb_ones(6) is %d", sb_ones(6));
}

static int twos_model(int n)
{
	int a = 0;

	while (n) {
		a += !(a & 1);
		a += n--;
	}
	return a;
}

static int threes_model(int n)
{
	int a = 0, state = n > 3 ? 4 : n == 3 ? 2 : 1;

	for (;;) {
		a += state == 1;
		a += state <= 2 ? 3 : 0;
		if (state <= 3) {
			n++;
			state = n < 5 ? 1 : n == 5 ? 5 : n < 9 ? 2 : 4;
			if (state <= 2)
				continue;
		}
		a += state == 4 ? 1 + n : 0;
		a += 2 + n;
		if (n >= 7)
			return a;
		state = 3;
	}
}

static int loopne_model(int n)
{
	if (!n)
		return -1;
	for (;;) {
		int value = n--;

		if (!n || !(value & 3))
			return n;
	}
}

static int flags_model(int n)
{
	int difference = (int)((unsigned)n - 5), overflow;

	overflow = __builtin_sub_overflow(n, 5, &difference);
	return ((unsigned)n < 5) | (n == 5) << 1 | (difference < 0) << 2 | overflow << 3 |
	       !__builtin_parity((unsigned)difference & 0xff) << 4;
}

static void check_adc(long seed)
{
	uint64_t a[6], b[6], sum[6];
	unsigned carry = 0;

	for (int i = 0; i < 6; i++) {
		a[i] = seed & 1 ? UINT64_MAX : (uint64_t)(seed + i) * 0x9e3779b97f4a7c15u;
		b[i] = (uint64_t)(seed * 3 + i) * 0xc2b2ae3d27d4eb4fu;
	}
	int got = sb_adc(sum, a, b, 6);

	for (int i = 0; i < 6; i++) {
		unsigned __int128 wide = (unsigned __int128)a[i] + b[i] + carry;

		CHECK(sum[i] == (uint64_t)wide, "sb_adc: word %d of seed %ld", i, seed);
		carry = (unsigned)(wide >> 64);
	}
	CHECK(got == (int)carry, "sb_adc: carry of seed %ld", seed);
}

static void check_loops(int n)
{
	CHECK(sb_twos(n) == twos_model(n), "sb_twos(%d) is %d", n, sb_twos(n));
	CHECK(sb_threes(n) == threes_model(n), "sb_threes(%d) is %d, not %d", n, sb_threes(n), threes_model(n));
	CHECK(sb_loop(n) == (long)n * (n + 1) / 2, "sb_loop(%d)", n);
	CHECK(sb_sum(n) == (long)n * (n + 1) / 2, "sb_sum(%d)", n);
	CHECK(sb_loopne(n) == loopne_model(n), "sb_loopne(%d) is %d, not %d", n, sb_loopne(n), loopne_model(n));
	CHECK(sb_entry_loop(n, 4) == n + 5, "sb_entry_loop(%d)", n);
}

static void check_jumps(int n)
{
	static const int table[] = { 4, 2, 2, 1, 0, 0 };
	int counter = n;

	CHECK(sb_pushes(n) == n + (n & 1 ? 20 : 10), "sb_pushes(%d)", n);
	CHECK(sb_overlap(n) == (n ? (int)0x90900704 : 7), "sb_overlap(%d) is %#x", n, sb_overlap(n));
	CHECK(sb_table(n % 6) == table[n % 6], "sb_table(%d)", n % 6);
	CHECK(sb_lock(&counter, n & 1) == n && counter == n + 1, "sb_lock(%d)", n);
	CHECK(sb_flags(n - 3) == flags_model(n - 3), "sb_flags(%d) is %#x", n - 3, sb_flags(n - 3));
	CHECK(sb_flags(INT32_MIN + n) == flags_model(INT32_MIN + n), "sb_flags(%d)", INT32_MIN + n);
	sb_tiny1();
	sb_tiny2();
	CHECK(sb_tiny3(0, 0, n) == n, "sb_tiny3(%d)", n);
}

static void check_string(int n)
{
	char from[64], to[64] = "";

	memset(from, 'a' + n % 26, sizeof from);
	CHECK(sb_string(to, from, n) == 0, "sb_string(%d) leaves bytes", n);
	CHECK(!memcmp(to, from, (size_t)n) && to[n] == 0, "sb_string(%d) copies wrongly", n);
}

static void one_round(long amount)
{
	for (long i = 0; i < amount; i++) {
		check_ones();
		check_loops((int)(i % 40));
		check_jumps((int)(i % 50));
		check_adc(i);
		check_string((int)(i % 60));
	}
}

int main(int argc, char **argv)
{
	return run_rounds(argc, argv, "shortblocks", 2000, one_round);
}
