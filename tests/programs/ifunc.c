/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* An indirect function of the program, called directly and by pointer, and libc's: memcpy, strlen and their families. */
#include "check.h"

#define HIDDEN_FROM_COMPILER(pointer) __asm__ volatile("" : "+r"(pointer))

static int plain_sum(const unsigned char *bytes, int count)
{
	int sum = 0;

	for (int i = 0; i < count; i++)
		sum += bytes[i];
	return sum;
}

static int paired_sum(const unsigned char *bytes, int count)
{
	int sum = count & 1 ? bytes[count - 1] : 0;

	for (int i = 0; i + 1 < count; i += 2)
		sum += bytes[i] + bytes[i + 1];
	return sum;
}

/* This runs while relocations are being done, and may call nothing. */
static int (*resolve_sum(void))(const unsigned char *, int)
{
	unsigned a = 0, b, c = 0, d;

	__asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
	return a >= 1 ? paired_sum : plain_sum;
}

int indirect_sum(const unsigned char *bytes, int count) __attribute__((ifunc("resolve_sum")));

static void check_own(const unsigned char *bytes, int count)
{
	int (*pointer)(const unsigned char *, int) = indirect_sum;

	HIDDEN_FROM_COMPILER(pointer);
	CHECK(indirect_sum(bytes, count) == plain_sum(bytes, count), "a direct call is wrong for %d bytes", count);
	CHECK(pointer(bytes, count) == plain_sum(bytes, count), "a call by pointer is wrong for %d bytes", count);
}

static void check_memory(unsigned char *a, unsigned char *b, size_t count)
{
	memset(b, 0xaa, 600);
	memcpy(b, a, count);
	CHECK(!memcmp(a, b, count) && b[count] == 0xaa, "memcpy of %zu", count);
	memmove(b + 3, b, count);
	CHECK(!memcmp(a, b + 3, count), "memmove of %zu", count);
	memset(b, 7, count);
	for (size_t i = 0; i < count; i++)
		CHECK(b[i] == 7, "memset of %zu", count);
}

static void check_text(char *text, char *other, size_t count)
{
	memset(text, 'x', count);
	text[count] = 0;
	CHECK(strlen(text) == count && strnlen(text, 600) == count, "strlen of %zu", count);
	strcpy(other, text);
	CHECK(!strcmp(other, text) && !strncmp(other, text, 600), "strcmp of %zu", count);
	CHECK(!count || strrchr(text, 'x') == text + count - 1, "strrchr of %zu", count);
	CHECK(strchr(text, 0) == text + count && !strstr(text, "y"), "strchr of %zu", count);
	if (count) {
		other[count - 1] = 'y';
		CHECK(strcmp(other, text) > 0 && strchr(other, 'y') == other + count - 1, "strcmp of %zu", count);
	}
}

static void one_round(long amount)
{
	static unsigned char a[700], b[700];
	unsigned char *from = a, *to = b;

	HIDDEN_FROM_COMPILER(from);
	HIDDEN_FROM_COMPILER(to);
	for (long i = 0; i < amount; i++) {
		size_t count = (size_t)(i * 37 % 513);

		for (int k = 0; k < 600; k++)
			from[k] = (unsigned char)(k * 31 + i);
		check_own(from, (int)count);
		check_memory(from, to, count);
		check_text((char *)from, (char *)to, count);
	}
}

int main(int argc, char **argv)
{
	return run_rounds(argc, argv, "ifunc", 2000, one_round);
}
