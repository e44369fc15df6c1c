/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Has a function of the name that the kernel has for getsid(2). Calls it three times, and getsid(2) five times; then says
 * so to stop(), and calls each once more. */
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((noinline)) long __x64_sys_getsid(const void *regs)
{
	__asm__ volatile("" : : "r"(regs));
	return 7;
}

__attribute__((noinline)) void stop(long n)
{
	__asm__ volatile("" : : "r"(n));
}

static long both(long own, long kernel)
{
	long sum = 0;

	while (own-- > 0)
		sum += __x64_sys_getsid("");
	while (kernel-- > 0)
		sum += syscall(SYS_getsid, 0) > 0;
	return sum;
}

int main(void)
{
	long sum = both(3, 5);

	stop(sum);
	printf("done %ld %ld\n", sum, both(1, 1));
	return 0;
}
