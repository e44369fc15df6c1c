// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A thread whose stack pointer and GS base point nowhere, and which runs for ever without touching its stack. Another
 * thread calls work() until input ends.
 *
 *     nowhere RSP GS
 */
#include <asm/prctl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned long rsp, gs;
volatile unsigned long done;

__attribute__((noinline)) void work(void)
{
	done++;
}

static void *lose(void *unused)
{
	if (gs && syscall(SYS_arch_prctl, ARCH_SET_GS, gs))
		_exit(1);
	__asm__ volatile("mov %0, %%rsp\n"
			 "1: incq %%rax\n"
			 "jmp 1b"
			 :
			 : "r"(rsp)
			 : "rax", "memory");
	return unused;
}

int main(int count, char **words)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	pthread_t thread;

	if (count != 3)
		return 2;
	rsp = strtoul(words[1], NULL, 0);
	gs = strtoul(words[2], NULL, 0);
	if (pthread_create(&thread, NULL, lose, NULL) || write(1, "ready\n", 6) < 0)
		return 1;
	while (poll(&input, 1, 1) == 0)
		work();
	_exit(0);
}
