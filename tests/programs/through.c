/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A function that continues, through the padding behind it, into the next one, as glibc's __memcpy_chk reaches memcpy.
 * Another function jumps behind the first instruction of that, which leaves room there for two bytes.
 */
#include "check.h"

long through_checked(long a, long b);
long through_plain(long a, long b);
long through_inside(long a, long b);

/* Code without padding, so that a two-byte jump cannot reach padding elsewhere. */
#define FAR(name) ".type " name ",@function\n" name ":\n\t.rept 40\n\tadd $1, %rax\n\t.endr\n\tret\n.size " name ",.-" name "\n"

__asm__(".text\n.globl through_checked,through_plain,through_inside\n.p2align 6\n" FAR("through_before")
	".type through_checked,@function\nthrough_checked:\n\t.cfi_startproc\n"
	"\tcmp %rsi, %rdi\n\tjg through_refuses\n\t.cfi_endproc\n.size through_checked,.-through_checked\n"
	"\t.byte 0x0f,0x1f,0x80,0,0,0,0, 0x0f,0x1f,0x80,0,0,0,0\n"
	".type through_plain,@function\nthrough_plain:\n\t.cfi_startproc\n\tmov %rdi, %rax\n"
	"1:\tadd %rsi, %rax\n\tret\n\t.cfi_endproc\n.size through_plain,.-through_plain\n"
	".type through_inside,@function\nthrough_inside:\n\t.cfi_startproc\n"
	"\tlea 7(%rdi), %rax\n\tjmp 1b\n\t.cfi_endproc\n.size through_inside,.-through_inside\n"
	".type through_refuses,@function\nthrough_refuses:\n\t.cfi_startproc\n"
	"\tmov $-1, %rax\n\tret\n\t.cfi_endproc\n.size through_refuses,.-through_refuses\n" FAR("through_behind"));

static void one_round(long amount)
{
	for (long i = 0; i < amount; i++) {
		CHECK(through_plain(i, 3) == i + 3, "through_plain(%ld)", i);
		CHECK(through_inside(i, 3) == i + 10, "through_inside(%ld)", i);
		CHECK(through_checked(i, 50) == (i > 50 ? -1 : i + 50), "through_checked(%ld)", i);
	}
}

int main(int argc, char **argv)
{
	return run_rounds(argc, argv, "through", 100, one_round);
}
