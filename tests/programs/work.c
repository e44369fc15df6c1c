/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A bit of everything, for builds of every kind (static, non-PIE, stripped ...): switch tables, recursion,
 * strings, function pointers, short blocks. Prints a checksum that depends on nothing but the amount of work.
 */
#include "check.h"

#include <ctype.h>

NOINLINE int dispatch(int code, int value);
NOINLINE int dispatch(int code, int value)
{
	switch (code) {
	case 0: return value + 1;
	case 1: return value * 3;
	case 2: return value ^ 0x55;
	case 3: return -value;
	case 4: return value >> 2;
	case 5: return value & 0xffff;
	case 6: return value % 7;
	case 7: return dispatch(value & 3, value + 9);
	case 9: return abs(value);
	case 10: return ~value;
	default: return 0;
	}
}

NOINLINE unsigned ackermann(unsigned m, unsigned n);
NOINLINE unsigned ackermann(unsigned m, unsigned n)
{
	if (m == 0)
		return n + 1;
	if (n == 0)
		return ackermann(m - 1, 1);
	return ackermann(m - 1, ackermann(m, n - 1));
}

NOINLINE unsigned text_hash(const char *text);
NOINLINE unsigned text_hash(const char *text)
{
	unsigned hash = 5381;

	for (; *text; text++) {
		if (isupper((unsigned char)*text))
			hash += (unsigned)tolower((unsigned char)*text);
		else if (isdigit((unsigned char)*text))
			hash ^= (unsigned)*text << 3;
		else
			hash = hash * 33 + (unsigned char)*text;
	}
	return hash;
}

NOINLINE static int ascending(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;

	return x < y ? -1 : x > y;
}

NOINLINE static int descending(const void *a, const void *b)
{
	return ascending(b, a);
}

static int (*const orders[])(const void *, const void *) = { ascending, descending };

NOINLINE unsigned sorted_hash(int seed);
NOINLINE unsigned sorted_hash(int seed)
{
	int values[40];
	unsigned hash = 0;

	for (int i = 0; i < 40; i++)
		values[i] = (seed + i) * 7919 % 1009;
	qsort(values, 40, sizeof *values, orders[seed & 1]);
	for (int i = 1; i < 40; i++)
		CHECK(seed & 1 ? values[i - 1] >= values[i] : values[i - 1] <= values[i], "not sorted");
	for (int i = 0; i < 40; i++)
		hash = hash * 31 + (unsigned)values[i];
	return hash;
}

NOINLINE unsigned short_blocks(unsigned x);
NOINLINE unsigned short_blocks(unsigned x)
{
	unsigned count = 0;

	while (x) {
		if (x & 1)
			count++;
		if (x & 2)
			count--;
		if ((x & 5) == 4)
			break;
		x >>= 1;
		BARRIER();
	}
	return count;
}

NOINLINE unsigned strings(unsigned i);
NOINLINE unsigned strings(unsigned i)
{
	char text[64], copy[64], *end;

	snprintf(text, sizeof text, "Item %u of %X, %s", i, i * 77, i & 1 ? "Odd" : "even");
	strcpy(copy, text);
	CHECK(!strcmp(copy, text) && strlen(copy) == strlen(text), "strcpy");
	CHECK(strtoul(text + 5, &end, 10) == i && *end == ' ', "strtoul");
	end = strchr(copy, ',');
	CHECK(end && memchr(copy, ',', sizeof copy) == end, "strchr");
	*end = 'Z';
	return text_hash(text) + text_hash(copy);
}

static unsigned checksum(long amount)
{
	unsigned sum = 0;

	for (long i = 0; i < amount; i++) {
		for (int code = -1; code < 12; code++)
			sum = sum * 7 + (unsigned)dispatch(code, (int)i + code);
		sum += ackermann(2, (unsigned)i % 5) + sorted_hash((int)i) + short_blocks((unsigned)i * 2654435761u);
		sum ^= strings((unsigned)i);
	}
	return sum;
}

static void one_round(long amount)
{
	unsigned sum = checksum(amount);

	CHECK(checksum(amount) == sum, "the checksum is not the same twice");
	CHECK(amount != 300 || sum == 0xc5b16b7f, "the checksum is %#x", sum);
	printf("checksum %08x\n", sum);
}

int main(int argc, char **argv)
{
	return run_rounds(argc, argv, "work", 300, one_round);
}
