/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A signal stack as small as the kernel takes it, and a kilobyte, above a page that may not be touched. */
#include "kind.h"

#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>

static volatile long handled;

NOINLINE void handler(int number, siginfo_t *info, void *context);
NOINLINE void handler(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info, (void)context;
	handled = work(handled + 1);
}

static void once(void)
{
	for (int i = 0; i < CALLS; i++)
		raise(SIGUSR1);
	printf("%lx %d\n", handled, CALLS);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	unsigned long size = getauxval(AT_MINSIGSTKSZ) + 1024, room = (size + 4095) & -4096UL;
	char *memory = mmap(NULL, room + 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t stack = { .ss_sp = memory + 4096, .ss_size = size };
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	(void)argv;
	if (memory == MAP_FAILED || mprotect(memory + 4096, room, PROT_READ | PROT_WRITE) || sigaltstack(&stack, NULL) ||
	    sigaction(SIGUSR1, &action, NULL))
		abort();
	return attend(argc, once);
}
