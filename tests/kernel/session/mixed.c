/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Has functions of the names that the kernel has for four system calls, and calls what its argument says, a word each: its
 * own function (b, s, e, u), or the system call (B, S, E, U), about the number that follows. */
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define OWN(name)                                                                  \
	__attribute__((noinline)) long __x64_sys_##name(const void *regs)          \
	{                                                                          \
		__asm__ volatile("" : : "r"(regs) : "memory");                     \
		return 0;                                                          \
	}

OWN(getsid)
OWN(getpgid)
OWN(getppid)
OWN(getuid)

static void carry_out(char what, long about)
{
	switch (what) {
	case 'b': __x64_sys_getsid(&about); break;
	case 's': __x64_sys_getpgid(&about); break;
	case 'e': __x64_sys_getppid(&about); break;
	case 'u': __x64_sys_getuid(&about); break;
	case 'B': syscall(SYS_getsid, about); break;
	case 'S': syscall(SYS_getpgid, about); break;
	case 'E': syscall(SYS_getppid, about); break;
	case 'U': syscall(SYS_getuid, about); break;
	}
}

int main(int count, char **given)
{
	for (int n = 1; n < count; n++)
		carry_out(given[n][0], given[n][1] - '0');
	puts("done");
	return 0;
}
