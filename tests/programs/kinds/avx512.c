/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* All registers of AVX-512 are live across every call of quiet(), and are checked after it. */
#include "kind.h"

#include <stdint.h>
#include <string.h>

extern void quiet(void), live(const void *in, void *out);
__asm__(".text\n.globl quiet\n.type quiet, @function\n"
	"quiet: test %rdi, %rdi\n je 1f\n nop\n1: ret\n.size quiet, .-quiet\n"
	".globl live\n.type live, @function\n"
	"live: push %rsi\n"
	".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
	" vmovdqu64 64*\\r(%rdi), %zmm\\r\n.endr\n"
	".irp r,0,1,2,3,4,5,6,7\n kmovw 2048+2*\\r(%rdi), %k\\r\n.endr\n"
	"call quiet\n"
	"pop %rsi\n"
	".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
	" vmovdqu64 %zmm\\r, 64*\\r(%rsi)\n.endr\n"
	".irp r,0,1,2,3,4,5,6,7\n kmovw %k\\r, 2048+2*\\r(%rsi)\n.endr\n"
	"vzeroupper\n ret\n.size live, .-live\n");

static uint16_t in[1032], out[1032];

static void once(void)
{
	unsigned long state = 1;

	for (int i = 0; i < CALLS; i++) {
		for (unsigned int j = 0; j < 1032; j++)
			in[j] = (uint16_t)((state = state * 6364136223846793005UL + 1442695040888963407UL) >> 40);
		live(in, out);
		if (memcmp(in, out, sizeof in)) {
			puts("a register is not what it was");
			exit(1);
		}
		work(i);
	}
	printf("%lx\n", state);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	(void)argv;
	if (!__builtin_cpu_supports("avx512f")) {
		puts("skipped: no AVX-512");
		return 77;
	}
	return attend(argc, once);
}
