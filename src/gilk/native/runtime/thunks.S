/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The ways from a patch into C. All of them keep every general register; the
 * patch has already stepped over the red zone.
 */
	.section .text.thunks, "ax"

/* Claim a block for this thread. Carry set: there is none. Changes nothing but the carry. */
	.globl gilk_claim_thunk
gilk_claim_thunk:
	push	%rbp
	mov	%rsp, %rbp
	pushfq
	push	%rax
	push	%rcx
	push	%rdx
	push	%rsi
	push	%rdi
	push	%r8
	push	%r9
	push	%r10
	push	%r11
	and	$-16, %rsp
	cld
	call	gilk_claim
	xor	$1, %eax
	andq	$-2, -8(%rbp)		/* the carry of the flags that are restored below */
	or	%rax, -8(%rbp)
	lea	-80(%rbp), %rsp
	pop	%r11
	pop	%r10
	pop	%r9
	pop	%r8
	pop	%rdi
	pop	%rsi
	pop	%rdx
	pop	%rcx
	pop	%rax
	popfq
	pop	%rbp
	ret

/*
 * Run an instrument that takes the registers. Above the return address lie
 * struct gilk_call: pc, shift, function, iid. Builds struct gilk_regs below.
 */
	.macro	save_registers
	pushfq
	push	%rax			/* the place of rip */
	push	%r15
	push	%r14
	push	%r13
	push	%r12
	push	%r11
	push	%r10
	push	%r9
	push	%r8
	push	%rdi
	push	%rsi
	push	%rbp
	push	%rax			/* the place of rsp */
	push	%rbx
	push	%rdx
	push	%rcx
	push	%rax
	cld
	mov	%rsp, %rbx
	lea	152(%rbx), %rsi		/* 18 words of registers and the return address */
	.endm

	.macro	restore_registers
	mov	%rbx, %rsp
	pop	%rax
	pop	%rcx
	pop	%rdx
	pop	%rbx
	lea	8(%rsp), %rsp
	pop	%rbp
	pop	%rsi
	pop	%rdi
	pop	%r8
	pop	%r9
	pop	%r10
	pop	%r11
	pop	%r12
	pop	%r13
	pop	%r14
	pop	%r15
	lea	8(%rsp), %rsp
	popfq
	.endm

	.globl gilk_registers_thunk
gilk_registers_thunk:
	save_registers
	mov	%rbx, %rdi
	xor	%edx, %edx
	and	$-16, %rsp
	call	gilk_dispatch
	restore_registers
	ret

/* The same around an instrument that calls out: the whole extended state is saved. */
	.globl gilk_vector_thunk
gilk_vector_thunk:
	save_registers
	mov	gilk_params+24(%rip), %rcx
	sub	%rcx, %rsp
	and	$-64, %rsp
	xor	%eax, %eax		/* the header must be zero before xsave */
	mov	%rax, 512(%rsp)
	mov	%rax, 520(%rsp)
	mov	%rax, 528(%rsp)
	mov	%rax, 536(%rsp)
	mov	%rax, 544(%rsp)
	mov	%rax, 552(%rsp)
	mov	%rax, 560(%rsp)
	mov	%rax, 568(%rsp)
	mov	$-1, %eax
	mov	$-1, %edx
	xsave64	(%rsp)
	mov	%rbx, %rdi
	lea	152(%rbx), %rsi
	mov	$1, %edx
	call	gilk_dispatch
	mov	$-1, %eax
	mov	$-1, %edx
	xrstor64 (%rsp)
	restore_registers
	ret

	.section .note.GNU-stack, "", @progbits
