/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the kernel's compiler options expect to be there, and code no compiler gives. */
	.text
	.globl	__x86_return_thunk, __x86_indirect_thunk_rax, __x86_indirect_thunk_rdi, __x86_indirect_thunk_r11
	.globl	__x86_indirect_thunk_rcx, __x86_indirect_thunk_rdx, __x86_indirect_thunk_r8, __x86_indirect_thunk_rbp
	.globl	__x86_indirect_thunk_rbx, __x86_indirect_thunk_r12, __x86_indirect_thunk_r13
	.type	__x86_return_thunk, @function
	.balign	16
__x86_return_thunk:
	ret
	int3
	.size	__x86_return_thunk, . - __x86_return_thunk

	.macro	thunk reg
	.balign	16
	.type	__x86_indirect_thunk_\reg, @function
__x86_indirect_thunk_\reg:
	call	1f
2:	pause
	lfence
	jmp	2b
1:	mov	%\reg, (%rsp)
	ret
	int3
	.size	__x86_indirect_thunk_\reg, . - __x86_indirect_thunk_\reg
	.endm
	.irp	reg, rax, rbx, rcx, rdx, rdi, rbp, r8, r11, r12, r13
	thunk	\reg
	.endr

	.macro	function name
	.balign	16
	.globl	\name
	.type	\name, @function
\name:
	.byte	0x0f, 0x1f, 0x44, 0, 0
	.endm

	/* Blocks of two and three bytes, one right behind the other. */
	function short_blocks
	test	$1, %dil
	jne	1f
	inc	%esi
1:	test	$2, %dil
	jne	2f
	dec	%esi
2:	test	$4, %dil
	je	3f
	mov	%rsi, %rax
	ret
	int3
3:	mov	%rdi, %rax
	ret
	int3
	.size	short_blocks, . - short_blocks

	/* A loop back to right behind the entry's nop. */
	function entry_loop
4:	dec	%rdi
	js	5f
	add	%rdi, %rsi
	jmp	4b
5:	mov	%rsi, %rax
	ret
	int3
	.size	entry_loop, . - entry_loop

	/* Flags live over the borders of blocks, and a direction that does not fall through. */
	function flags_live
	cmp	%rsi, %rdi
	jmp	6f
	int3
6:	je	7f
	jb	8f
	mov	$1, %eax
	ret
	int3
7:	xor	%eax, %eax
	ret
	int3
8:	mov	$-1, %rax
	ret
	int3
	.size	flags_live, . - flags_live

	/* Nothing but the nop and the return. */
	function bare
	ret
	int3
	int3
	int3
	int3
	.size	bare, . - bare

	/* A warning amid: ud2 must stay where it is, and so must what a table names. */
	function warns
	lea	1(%rdi), %rax
	test	%rsi, %rsi
	je	9f
	add	$0x1000, %rax
9:	ret
	int3
	ud2
	.size	warns, . - warns

	.globl	faults, faults_here
	function faults
	mov	%rdi, %rax
faults_here:
	mov	(%rsi), %rcx
	add	%rcx, %rax
	lea	0x12345(%rax), %rax
	ret
	int3
	.size	faults, . - faults

	/* One byte that others know by name, and nothing around that could be lent to it. */
	.globl	crowded_return
	function crowded
	.rept	25
	test	$1, %dil
	jne	1f
1:
	.endr
	mov	%esi, %eax
	test	$2, %dil
	je	2f
crowded_return:
	ret
2:
	.rept	25
	test	$1, %dil
	jne	1f
1:
	.endr
	mov	%edi, %eax
	ret
	int3
	.size	crowded, . - crowded

	.section .note.GNU-stack, "", @progbits
