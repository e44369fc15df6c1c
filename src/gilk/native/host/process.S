/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The ways from a patch in a process into C. All of them keep every general register; the
 * patch has already stepped over the red zone.
 */
#include "../abi/gilk_regs.h"

	.section .text.thunks, "ax"

/* Claim a block for this thread. Sets the carry flag if there is none; changes nothing else. */
	.globl gilk_claim_thunk
gilk_claim_thunk:
	push	%rbp
	mov	%rsp, %rbp
	pushfq
	push	%rax
	push	%rcx
	push	%rdx
	push_arguments
	and	$-16, %rsp
	cld
	call	gilk_claim
	xor	$1, %eax
	andq	$-2, -8(%rbp)		/* the carry of the flags that are restored below */
	or	%rax, -8(%rbp)
	lea	-80(%rbp), %rsp
	pop_arguments
	pop	%rdx
	pop	%rcx
	pop	%rax
	popfq
	pop	%rbp
	ret

/*
 * Run an instrument that takes the registers. Above the return address lies
 * struct gilk_call: pc, shift, function, iid. Builds struct gilk_regs below it.
 */
	.macro	save_registers
	push_registers
	mov	%rsp, %rbx
	lea	REGISTERS_SIZE + 8(%rbx), %rsi	/* behind the registers and the return address */
	.endm

	.macro	restore_registers
	mov	%rbx, %rsp
	pop_registers
	.endm

	.macro	run_with_registers
	save_registers
	mov	%rbx, %rdi
	xor	%edx, %edx
	and	$-16, %rsp
	call	gilk_dispatch
	restore_registers
	.endm

/* The same for an instrument that calls functions of the target: saves the whole extended state. */
	.macro	run_with_vectors
	save_registers
	mov	%rbx, %rdi
	call	dispatch_with_vectors
	restore_registers
	.endm

	.globl gilk_registers_thunk
gilk_registers_thunk:
	run_with_registers
	ret

	.globl gilk_vector_thunk
gilk_vector_thunk:
	run_with_vectors
	ret

/* Call gilk_dispatch(rdi, rsi, 1) and keep the vector state. The caller has saved rsp in rbx, and restores it. */
dispatch_with_vectors:
	mov	%rsp, %r12
	sub	gilk_params+24(%rip), %rsp
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
	mov	$1, %edx
	call	gilk_dispatch
	mov	$-1, %eax
	mov	$-1, %edx
	xrstor64 (%rsp)
	mov	%r12, %rsp
	ret

/*
 * The same for programs whose stacks may have little room (Go): only three words
 * and the words pushed here lie on that stack, the rest goes to the thread's side
 * stack. The patch:
 *
 *	push iid; push shift; push pc; call gilk_side_...; jmp 1f; call FUNCTION; 1: lea 24(%rsp),%rsp
 *
 * Its `call FUNCTION` is never executed: it tells where the function is.
 */
	.set	SIDE_TOP, 56		/* abi/gilk_abi.h: struct gilk_block */
	.set	SIDE_RSP, 192
	.set	NESTED, 40
	.set	CLAIM_STACKS, 16
	.set	CLAIM_STACK_SHIFT, 12
	.set	CLAIM_LOCKS, 64		/* in the key page, which the kernel clears in a forked child */
	.set	CLAIM_TRIES, 1 << 24

/* On the program's stack: rax, flags, return address, pc, shift, iid. On the side stack: struct gilk_call. */
	.macro	go_aside
	pushfq
	push	%rax
1:	rdfsbase %rax
	add	gilk_key(%rip), %rax
	cmp	%gs:0, %rax
	jne	3f
	cmpq	$0, %gs:SIDE_TOP
	je	3f
	cmpq	$0, %gs:SIDE_RSP
	jne	4f
	mov	%rsp, %gs:SIDE_RSP
	mov	%gs:SIDE_TOP, %rsp
	mov	%gs:SIDE_RSP, %rax
	pushq	40(%rax)		/* iid */
	pushq	$0			/* function, set below */
	pushq	32(%rax)		/* shift: from the end of struct gilk_call to the stack pointer of the program */
	push	%rcx
	mov	16(%rax), %rcx
	movslq	3(%rcx), %rax
	lea	7(%rcx,%rax), %rax
	sub	gilk_params+16(%rip), %rax
	mov	%rax, 16(%rsp)
	mov	%gs:SIDE_RSP, %rax
	lea	48(%rax), %rcx
	sub	%gs:SIDE_TOP, %rcx
	add	%rcx, 8(%rsp)
	pop	%rcx
	pushq	24(%rax)		/* pc */
	pushq	16(%rax)		/* in place of a return address */
	pushq	8(%rax)
	popfq
	mov	(%rax), %rax
	.subsection 1
3:	call	gilk_side_claim_thunk
	jc	5f
	cmpq	$0, %gs:SIDE_TOP
	jne	1b
4:	incq	%gs:NESTED
5:	pop	%rax
	popfq
	ret
	.previous
	.endm

	.macro	come_back
	mov	%gs:SIDE_RSP, %rsp
	movq	$0, %gs:SIDE_RSP
	lea	16(%rsp), %rsp		/* skip rax and the flags, which have kept their values */
	ret
	.endm

	.globl gilk_side_registers_thunk
gilk_side_registers_thunk:
	go_aside
	run_with_registers
	come_back

	.globl gilk_side_vector_thunk
gilk_side_vector_thunk:
	go_aside
	run_with_vectors
	come_back

/* Load the address of the function that struct gilk_call at %rsi names by its offset in the arena. */
	.macro	load_function
	mov	16(%rsi), %rax
	add	gilk_params+16(%rip), %rax
	.endm

/* void f(unsigned iid) */
	.globl gilk_side_plain_thunk
gilk_side_plain_thunk:
	go_aside
	save_registers
	mov	24(%rsi), %rdi
	load_function
	and	$-16, %rsp
	call	*%rax
	restore_registers
	come_back

/* void f(rdi, rsi, rdx, rcx, r8, r9, unsigned iid, rax) */
	.globl gilk_side_values_thunk
gilk_side_values_thunk:
	go_aside
	save_registers
	mov	(%rbx), %rax
	push	%rax
	pushq	24(%rsi)
	load_function
	mov	48(%rbx), %rsi
	call	*%rax
	restore_registers
	come_back

/*
 * Claim a block where the program's stack may have hardly any room. Sets the carry
 * flag if there is none; changes nothing else. Gives up if no claim stack becomes free.
 */
	.globl gilk_side_claim_thunk
gilk_side_claim_thunk:
	pushfq
	push	%rax
	push	%rcx
	push	%rdx
	push	%rbx
	lea	gilk_key+CLAIM_LOCKS(%rip), %rdx
	mov	$CLAIM_TRIES, %ebx
1:	mov	%ebx, %ecx
	and	$CLAIM_STACKS - 1, %ecx
	mov	$1, %eax
	xchg	%eax, (%rdx,%rcx,4)
	test	%eax, %eax
	jz	2f
	pause
	dec	%ebx
	jnz	1b
	mov	gilk_params(%rip), %rdx
	lock incq 72(%rdx)		/* struct gilk_control: lost */
	mov	$1, %eax
	jmp	4f
2:	lea	(%rdx,%rcx,4), %rdx
	inc	%ecx
	shl	$CLAIM_STACK_SHIFT, %ecx
	add	gilk_params+48(%rip), %rcx	/* side */
	mov	%rsp, %rax
	cmpq	$0, gilk_params+48(%rip)
	je	3f
	mov	%rcx, %rsp
3:	push	%rax			/* save the program's stack pointer */
	push	%rdx			/* the word that holds this stack */
	push_arguments
	cld
	call	gilk_claim
	xor	$1, %eax
	pop_arguments
	pop	%rdx
	pop	%rsp
	movl	$0, (%rdx)
4:	andq	$-2, 32(%rsp)
	or	%rax, 32(%rsp)
	pop	%rbx
	pop	%rdx
	pop	%rcx
	pop	%rax
	popfq
	ret

/* Contexts come here with the stack pointer at the ucontext of a second signal frame (targets/frame_writes.py). */
	.globl gilk_sigreturn
gilk_sigreturn:
	mov	$15, %eax
	syscall
	ud2

	.section .note.GNU-stack, "", @progbits
