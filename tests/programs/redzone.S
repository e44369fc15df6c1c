/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* uint64_t redzone_asm(uint64_t x): fills -8..-128 under rsp in one block after another, then adds up the slots. */
	.text
	.globl redzone_asm
	.type redzone_asm, @function
redzone_asm:
	.cfi_startproc
	movq	$0x1111, -8(%rsp)
	movq	%rdi, -128(%rsp)
	testb	$1, %dil
	jz	.Leven
	addq	$5, -8(%rsp)
	jmp	.Lfill
.Leven:
	addq	$9, -8(%rsp)
.Lfill:
	movl	$14, %ecx
.Lnext:
	movq	%rdi, %rax
	imulq	%rcx, %rax
	movq	%rax, -128(%rsp,%rcx,8)
	decl	%ecx
	jnz	.Lnext
	xorl	%eax, %eax
	movl	$16, %ecx
.Ladd:
	addq	-136(%rsp,%rcx,8), %rax
	loop	.Ladd
	ret
	.cfi_endproc
	.size redzone_asm, .-redzone_asm
	.section .note.GNU-stack,"",@progbits
