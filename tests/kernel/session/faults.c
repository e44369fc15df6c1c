// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Touches PAGES new pages in user space and has the kernel write to READ others, between two calls of getpgid(). Then
 * writes where no memory is, catches the signal, and calls getsid().
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 300, READ = 7 };

static sigjmp_buf back;

static void caught(int number)
{
	siglongjmp(back, number);
}

int main(void)
{
	size_t size = (PAGES + READ) * PAGE;
	volatile char *memory = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int zeroes = open("/dev/zero", O_RDONLY), i;

	if (memory == MAP_FAILED || zeroes < 0 || madvise((void *)memory, size, MADV_NOHUGEPAGE))
		return 1;
	getpgid(0);
	for (i = 0; i < PAGES; i++)
		memory[i * PAGE] = 1;
	if (read(zeroes, (void *)(memory + PAGES * PAGE), READ * PAGE) != READ * PAGE)
		return 2;
	getpgid(0);
	signal(SIGSEGV, caught);
	if (!sigsetjmp(back, 1))
		*(volatile int *)PAGE = 1;
	getsid(0);
	return 0;
}
