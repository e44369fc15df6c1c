/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* glibc's backtrace() from deep frames gives each frame's return address, in the function that made the call. */
#include "check.h"

#include <dlfcn.h>
#include <execinfo.h>

enum { DEPTH = 20 };

static void *expected[DEPTH + 4];
static int levels;

NOINLINE int even_level(int depth);
NOINLINE int odd_level(int depth);

static void *return_address(void *raw)
{
	return __builtin_extract_return_addr(raw);
}

NOINLINE int collect(void);
NOINLINE int collect(void)
{
	void *found[DEPTH + 16];
	int count = backtrace(found, DEPTH + 16);

	expected[levels] = return_address(__builtin_return_address(0));
	CHECK(count > levels + 2, "only %d frames, of %d", count, levels + 3);
	/* found[0] is an address in collect() itself. */
	for (int i = 0; i <= levels; i++)
		CHECK(found[i + 1] == expected[levels - i], "frame %d is %p, not %p", i, found[i + 1], expected[levels - i]);
	return count;
}

static void check_name_of(void *address, const char *name)
{
	Dl_info info;

	/* A return address may be the first byte after its function: look one byte before. */
	CHECK(dladdr((char *)address - 1, &info) && info.dli_sname, "no symbol at %p", address);
	CHECK(!strcmp(info.dli_sname, name), "%p lies in %s, not in %s", address, info.dli_sname, name);
}

NOINLINE int even_level(int depth)
{
	expected[levels++] = return_address(__builtin_return_address(0));
	int count = depth ? odd_level(depth - 1) : collect();

	levels--;
	BARRIER();
	return count;
}

NOINLINE int odd_level(int depth)
{
	expected[levels++] = return_address(__builtin_return_address(0));
	int count = depth ? even_level(depth - 1) : collect();

	levels--;
	BARRIER();
	return count;
}

NOINLINE void one_round(long amount);
NOINLINE void one_round(long amount)
{
	for (long i = 0; i < amount; i++) {
		levels = 0;
		even_level(DEPTH - 1);
		check_name_of(expected[0], "one_round");
		for (int level = 1; level <= DEPTH; level++)
			check_name_of(expected[level], level % 2 ? "even_level" : "odd_level");
	}
}

int main(int argc, char **argv)
{
	return run_rounds(argc, argv, "backtrace", 200, one_round);
}
