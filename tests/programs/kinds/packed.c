/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Unpacks its own code before it runs it, as packed programs do: to memory without a file, and, if it is attached to, over
 * the packed code. */
#include "kind.h"

#include <string.h>
#include <sys/mman.h>

#define KEY 0x5a

/* lea 7(%rdi),%rax; ret, of which every byte is changed by KEY */
__asm__(".section .packed,\"ax\",@progbits\n"
	".globl hidden\n.type hidden, @function\n"
	"hidden: .byte 0x48^0x5a, 0x8d^0x5a, 0x47^0x5a, 0x07^0x5a, 0xc3^0x5a\n"
	".size hidden, .-hidden\n"
	".text\n");
extern char hidden[];
static long (*elsewhere)(long), (*here)(long);

static void decode(char *to)
{
	for (int i = 0; i < 5; i++)
		to[i] = hidden[i] ^ KEY;
}

static void unpack(void)
{
	elsewhere = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	decode((char *)elsewhere);
	if (mprotect((void *)elsewhere, 4096, PROT_READ | PROT_EXEC))
		abort();
	here = elsewhere;
}

static void unpack_in_place(void)
{
	void *page = (void *)((unsigned long)hidden & -4096UL);

	if (mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC))
		abort();
	decode(hidden);
	if (mprotect(page, 8192, PROT_READ | PROT_EXEC))
		abort();
	here = (long (*)(long))hidden;
}

static void once(void)
{
	long state = 1;

	for (int i = 0; i < CALLS; i++)
		state = elsewhere(here(work(state + i)));
	printf("%lx\n", state);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	(void)argv;
	unpack();
	if (argc > 1)
		unpack_in_place();
	return attend(argc, once);
}
