/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Executes a copy of its text in memory of no file, for which huge pages are asked, as servers do. With the argument
 * `late` it makes the copy at the first letter of input, by when a tracer may have changed the text. */
#include "kind.h"

#include <string.h>
#include <sys/mman.h>

static int moved;

static void move_text(void)
{
	unsigned long start, end, offset;
	void *copy;

	moved = 1;
	own_text(&start, &end, &offset);
	copy = mmap(NULL, end - start, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (copy == MAP_FAILED)
		abort();
	madvise(copy, end - start, MADV_HUGEPAGE);
	memcpy(copy, (void *)start, end - start);
	if (mprotect(copy, end - start, PROT_READ | PROT_EXEC) ||
	    mremap(copy, end - start, end - start, MREMAP_MAYMOVE | MREMAP_FIXED, start) != (void *)start)
		abort();
}

static void late(void)
{
	if (!moved)
		move_text();
	steadily();
}

int main(int argc, char **argv)
{
	if (argc < 2 || strcmp(argv[1], "late"))
		move_text();
	return attend(argc, late);
}
