/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From the program's stack to the stack of its advice, and back (runtime/advice.h). A patch comes here by a jump, at a
 * function's entry or at a return:
 *
 *	lea -128(%rsp),%rsp; push %r11; lea END(%rip),%r11; push %r11; lea ADVICE(%rip),%r11; jmp gilk_advice_...;
 *	jmp AGAIN; END:
 *
 * or with the address of a list in place of ADVICE's. At END the stack pointer and all registers but the flags are what
 * they were. At AGAIN the patch looks whose call it is that returns, and returns if it is no one's.
 */
#include "../abi/gilk_regs.h"
#include "advising.h"

	.section .text.thunks, "ax"

	.set	PREVIOUS, 0		/* runtime/advice.h: struct gilk_activation */
	.set	RSP, 8
	.set	ADVICE, 16
	.set	RESUME, 24
	.set	SIDE, 32
	.set	ITS_SHOWN, 40
	.set	BEFORE, 48
	.set	KEPT, 56
	.set	RAX, 64
	.set	RCX, 72
	.set	RDX, 80
	.set	RBX, 88
	.set	RBP, 96
	.set	RSI, 104
	.set	RDI, 112
	.set	R8, 120
	.set	R9, 128
	.set	R10, 136
	.set	R11, 144
	.set	R12, 152
	.set	R13, 160
	.set	R14, 168
	.set	R15, 176
	.set	VECTORS, 184
	.set	ARGUMENTS, 192
	.set	CONTROL, 200
	.set	PASSED, 208
	.set	AGAIN, 216
	.set	FRAME, 224
	.set	CALLER, 232
	.set	ITS_KEY, 240
	.set	ACTIVATION_SIZE, 256	/* a multiple of 64, as xsave wants it */

	.set	ENTRY, 0		/* struct gilk_advice */
	.set	STACK, 8
	.set	FLAGS, 12
	.set	MORE, 16
	.set	RESULTS, 20
	.set	INTEGERS, 21
	.set	XMMS, 22

	.set	PUSHED, 128 + 16	/* by the patch */

/* The patch goes on. rsp is at what the patch has pushed. */
	.macro	go_on
	mov	(%rsp), %r11
	mov	%r11, PUSHED-16(%rsp)
	mov	8(%rsp), %r11
	lea	PUSHED(%rsp), %rsp
	jmp	*-16(%rsp)
	.endm

/* The vector registers, all of them, are those of the entry again; \area has them. Overwrites rax and rdx. */
	.macro	restore_vectors activation, area
	stmxcsr	CONTROL(\activation)
	mov	$PARTS, %eax
	xor	%edx, %edx
	xrstor64 (\area)
	ldmxcsr	CONTROL(\activation)
	.endm

/*
 * In advice: go to \child in a process that the advice has forked, where the key is not what it was at the entry. The
 * block is the parent's, who goes on with it. Overwrites \register and flags.
 */
	.macro	unless_forked register, child
	mov	gilk_key(%rip), \register
	cmp	ITS_KEY(%rbx), \register
	jne	\child
	.endm

/* From the side stack, where nobody else may begin anything before `running` is 0. Overwrites rcx. */
	.macro	begin_way activation
	mov	RSP(\activation), %rcx
	mov	%rcx, %gs:LEFT
	movq	$1, %gs:RUNNING
	.endm

/* The activation in rbx is over. Overwrites rcx. */
	.macro	drop
	mov	PREVIOUS(%rbx), %rcx
	mov	%rcx, %gs:NEWEST
	jrcxz	90f
	mov	ITS_SHOWN(%rcx), %rcx
	jmp	91f
90:	mov	$-1, %rcx
91:	mov	%rcx, %gs:SHOWN
	mov	BEFORE(%rbx), %rcx
	mov	%rcx, %gs:NEXT
	.endm

/* All registers are those of the activation in rbx again, but for the results'. */
	.macro	take_back
	mov	RCX(%rbx), %rcx
	mov	RSI(%rbx), %rsi
	mov	RDI(%rbx), %rdi
	mov	R8(%rbx), %r8
	mov	R9(%rbx), %r9
	mov	R10(%rbx), %r10
	mov	R11(%rbx), %r11
	mov	RSP(%rbx), %rsp
	mov	RBX(%rbx), %rbx
	.endm

/* A function's entry. */
	.globl gilk_advice_enter
gilk_advice_enter:
	push	%rax
	may_begin PUSHED+8

	lea	PUSHED+8(%rsp), %rax
	mov	%rax, %gs:LEFT
	movq	$1, %gs:RUNNING
	mov	%gs:NEXT, %rsp
	sub	$ACTIVATION_SIZE, %rsp
	mov	%rcx, RCX(%rsp)
	mov	%rdx, RDX(%rsp)
	mov	%rbx, RBX(%rsp)
	mov	%rbp, RBP(%rsp)
	mov	%rsi, RSI(%rsp)
	mov	%rdi, RDI(%rsp)
	mov	%r8, R8(%rsp)
	mov	%r9, R9(%rsp)
	mov	%r10, R10(%rsp)
	mov	%r12, R12(%rsp)
	mov	%r13, R13(%rsp)
	mov	%r14, R14(%rsp)
	mov	%r15, R15(%rsp)
	mov	%rsp, %rbx
	mov	-PUSHED-8(%rax), %rcx
	mov	%rcx, RAX(%rbx)
	mov	-PUSHED(%rax), %rcx
	mov	%rcx, RESUME(%rbx)
	mov	-PUSHED+8(%rax), %rcx
	mov	%rcx, R11(%rbx)
	mov	%rax, RSP(%rbx)
	mov	(%rax), %rcx
	mov	%rcx, CALLER(%rbx)
	mov	gilk_key(%rip), %rcx
	mov	%rcx, ITS_KEY(%rbx)
	mov	%r11, ADVICE(%rbx)
	mov	%gs:NEWEST, %rcx
	mov	%rcx, PREVIOUS(%rbx)
	lea	ACTIVATION_SIZE(%rbx), %rcx
	mov	%rcx, BEFORE(%rbx)
	xor	%ecx, %ecx
	mov	%rcx, SIDE(%rbx)
	mov	%rcx, VECTORS(%rbx)
	mov	%rcx, ARGUMENTS(%rbx)
	mov	%rcx, PASSED(%rbx)
	mov	RESUME(%rbx), %rdx
	mov	%rdx, AGAIN(%rbx)
	mov	%rcx, FRAME(%rbx)
	mov	%rcx, KEPT(%rbx)
	cmp	%gs:SHOWN, %rax
	cmova	%rcx, %rax		/* above what is on another stack: look closer at each return */
	mov	%rax, ITS_SHOWN(%rbx)
	mov	%rbx, %gs:NEWEST
	mov	%rax, %gs:SHOWN
	mov	%rbx, %gs:RUNNING
	mov	%gs:HIGH, %rcx
	mov	%rbx, OWN_CALL(%rcx)

	testl	$1, FLAGS(%r11)
	jz	4f
	sub	$AREA, %rsp
	mov	%rsp, VECTORS(%rbx)
	save_vectors
4:	mov	STACK(%r11), %ecx
	jrcxz	5f
	lea	15(%rcx), %rax
	and	$-16, %rax
	sub	%rax, %rsp
	mov	%rsp, ARGUMENTS(%rbx)
	mov	RSP(%rbx), %rsi
	add	$8, %rsi
	mov	%rsp, %rdi
	shr	$3, %ecx
	rep movsq
5:	mov	STACK(%r11), %ecx
	add	MORE(%r11), %ecx
	jrcxz	6f
	lea	15(%rcx), %rax
	and	$-16, %rax
	sub	%rax, %rsp
	mov	RSP(%rbx), %rsi
	add	$8, %rsi
	mov	%rsp, %rdi
	shr	$3, %ecx
	rep movsq
6:	mov	RDI(%rbx), %rdi
	mov	RSI(%rbx), %rsi
	mov	RDX(%rbx), %rdx
	mov	RCX(%rbx), %rcx
	mov	R8(%rbx), %r8
	mov	R9(%rbx), %r9
	mov	R10(%rbx), %r10
	mov	RAX(%rbx), %rax
	call	*ENTRY(%r11)

	/* The advice has come back: its result is the function's. rbx, as C keeps it, has the activation. */
	mov	ADVICE(%rbx), %r11
	testl	$2, FLAGS(%r11)
	jnz	go_into_function
	testl	$1, FLAGS(%r11)
	jz	7f
	mov	%rax, KEPT(%rbx)
	mov	%rdx, %rsi
	mov	VECTORS(%rbx), %rdi
	movups	%xmm0, -32(%rdi)
	movups	%xmm1, -16(%rdi)
	restore_vectors %rbx, %rdi
	mov	KEPT(%rbx), %rax
	mov	%rsi, %rdx
	testl	$4, RESULTS(%r11)
	jz	8f
	movups	-32(%rdi), %xmm0
8:	testl	$8, RESULTS(%r11)
	jz	7f
	movups	-16(%rdi), %xmm1
7:	testl	$1, RESULTS(%r11)
	jnz	9f
	mov	RAX(%rbx), %rax
9:	testl	$2, RESULTS(%r11)
	jnz	10f
	mov	RDX(%rbx), %rdx
10:	unless_forked %rcx, 13f
	begin_way %rbx
	drop
	mov	%gs:NEWEST, %rcx
	jrcxz	11f
	mov	RSP(%rcx), %rcx
	cmp	RSP(%rbx), %rcx
	je	12f
11:	take_back
	movq	$0, %gs:RUNNING
	ret

	.subsection 1
	/* The call is another one's, too, which has jumped to this function: the patch looks whose. */
12:	mov	AGAIN(%rbx), %r11
	lea	-5(%r11), %r11
	mov	%r11, -16(%rcx)
	take_back
	movq	$0, %gs:RUNNING
	jmp	*-16(%rsp)
13:	take_back
	ret
	unusual_begin PUSHED+8
7:	pop	%rax
	go_on
	too_late_to_begin
	.previous

/* A function returns that may be the end of one that has advice. r11: a list. */
	.globl gilk_advice_returned
gilk_advice_returned:
	push	%rax
1:	rdfsbase %rax
	add	gilk_key(%rip), %rax
	cmp	%gs:0, %rax
	jne	50f
	push	%rcx
	lea	PUSHED+16(%rsp), %rax
	mov	%gs:NEWEST, %rcx
	jrcxz	3f
	cmp	RSP(%rcx), %rax
	jne	60f
	movslq	(%r11), %rax
	mov	4(%r11,%rax), %rax	/* the first of the list */
	cmp	ADVICE(%rcx), %rax
	jne	60f
2:	cmpq	$0, SIDE(%rcx)
	je	3f			/* it has not called the function: this is another call */
	mov	16(%rsp), %rax
	mov	%rax, AGAIN(%rcx)
	lea	PUSHED+16(%rsp), %rax
	mov	%rax, %gs:LEFT
	movq	$1, %gs:RUNNING
	mov	8(%rsp), %rax
	mov	SIDE(%rcx), %rsp
	mov	%rcx, %gs:RUNNING
	mov	%gs:HIGH, %r11
	mov	%rcx, OWN_CALL(%r11)
	movq	$0, SIDE(%rcx)
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbp
	pop	%rbx
	ret
3:	pop	%rcx
4:	pop	%rax
	go_on

	.subsection 1
50:	call	gilk_claim_thunk
	jc	4b
	jmp	1b
60:	lea	PUSHED+16(%rsp), %rax
	ask	gilk_advice_find
	mov	%rax, %rcx
	test	%rcx, %rcx
	jnz	2b
	jmp	3b
	.previous

/*
 * Look at the newest activation, in rcx, if it is of the call at the patch's stack pointer; if not, go to 1, and to 2 if
 * there is none. r11: a list. The flags are kept, but for the direction.
 */
	.macro	begin_look
	push	%rax
	push	%rcx
	lahf
	seto	%al
	push	%rax
	rdfsbase %rax
	add	gilk_key(%rip), %rax
	cmp	%gs:0, %rax
	jne	2f
	mov	%gs:NEWEST, %rcx
	jrcxz	2f
	lea	PUSHED+24(%rsp), %rax
	cmp	RSP(%rcx), %rax
	jne	1f
	.endm

	.macro	end_look function
	jmp	2f
1:	lea	PUSHED+24(%rsp), %rax
	ask	\function
2:	pop	%rax
	add	$127, %al
	sahf
	pop	%rcx
	pop	%rax
	go_on
	.endm

	.macro	first_of_list		/* to 1 if that is not the advice of the activation. Overwrites rax. */
	movslq	(%r11), %rax
	mov	4(%r11,%rax), %rax
	cmp	ADVICE(%rcx), %rax
	jne	1f
	.endm

/* A function is entered that one with advice may jump to. */
	.globl gilk_advice_reached
gilk_advice_reached:
	begin_look
	cmpq	$0, PASSED(%rcx)
	je	1f
	movq	$0, PASSED(%rcx)
	end_look gilk_advice_prune_reached

/* A function that may have advice is about to jump to one that is such. */
	.globl gilk_advice_jumps
gilk_advice_jumps:
	begin_look
	first_of_list
	movq	$1, PASSED(%rcx)
	end_look gilk_advice_pass_on

/* It has not. */
	.globl gilk_advice_stays
gilk_advice_stays:
	begin_look
	first_of_list
	movq	$0, PASSED(%rcx)
	end_look gilk_advice_keep

/* T proceed(): with the arguments as they came. */
	.globl gilk_advice_proceed
gilk_advice_proceed:
	mov	%gs:HIGH, %rax
	mov	OWN_CALL(%rax), %rax
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	mov	%rax, %rbx
	mov	ADVICE(%rbx), %r11
	call	give_arguments
	testl	$1, FLAGS(%r11)
	jz	1f
	mov	VECTORS(%rbx), %rdi
	restore_vectors %rbx, %rdi
1:	call	leave_advice
	mov	RDI(%rbx), %rdi
	mov	RSI(%rbx), %rsi
	mov	RDX(%rbx), %rdx
	mov	RCX(%rbx), %rcx
	mov	R8(%rbx), %r8
	mov	R9(%rbx), %r9
	jmp	into_function

/* The function has fewer than \number arguments in general registers: the last one of those is the caller's. */
	.macro	restore_unless_given number, saved, register
	cmpb	$\number, INTEGERS(%r11)
	jae	into_function
	mov	\saved(%rbx), \register
	.endm

/*
 * T proceed(...): with others, which lie where C has them. Registers of arguments that the function has no argument in
 * are as the caller left them: it may count on that, and the advice may be taken out before the function returns.
 */
	.globl gilk_advice_proceed_with
gilk_advice_proceed_with:
	mov	%gs:HIGH, %rax
	mov	OWN_CALL(%rax), %rax
	push	%rbx
	push	%rbp
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	mov	%rax, %rbx
	mov	ADVICE(%rbx), %r11
	mov	%rdi, %r12
	mov	%rsi, %r13
	mov	%rdx, %r14
	mov	%rcx, %r15
	mov	STACK(%r11), %ecx
	jrcxz	1f
	lea	56(%rsp), %rsi
	mov	RSP(%rbx), %rdi
	add	$8, %rdi
	shr	$3, %ecx
	rep movsq
1:	testl	$1, FLAGS(%r11)
	jz	2f
	sub	$128, %rsp
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7
	movups	%xmm\n, 16*\n(%rsp)
	.endr
	mov	VECTORS(%rbx), %rdi
	restore_vectors %rbx, %rdi
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7
	cmpb	$\n, XMMS(%r11)
	jbe	3f
	movups	16*\n(%rsp), %xmm\n
	.endr
3:	add	$128, %rsp
2:	call	leave_advice
	mov	%r12, %rdi
	mov	%r13, %rsi
	mov	%r14, %rdx
	mov	%r15, %rcx
	restore_unless_given 6, R9, %r9
	restore_unless_given 5, R8, %r8
	restore_unless_given 4, RCX, %rcx
	restore_unless_given 3, RDX, %rdx
	restore_unless_given 2, RSI, %rsi
	restore_unless_given 1, RDI, %rdi

/* rbx: the activation. The way is open; the arguments are where they belong. */
into_function:
	mov	RBP(%rbx), %rbp
	mov	R10(%rbx), %r10
	mov	R11(%rbx), %r11
	mov	R12(%rbx), %r12
	mov	R13(%rbx), %r13
	mov	R14(%rbx), %r14
	mov	R15(%rbx), %r15
	mov	RAX(%rbx), %rax
	mov	RSP(%rbx), %rsp
	cmpq	$0, KEPT(%rbx)
	mov	RBX(%rbx), %rbx
	jne	1f
	movq	$0, %gs:RUNNING
1:	jmp	*-16(%rsp)

/*
 * Note where the advice waits, above the return address. Overwrites rax, rcx and r10. In a child that the advice has
 * forked it does not wait: the function is left alone (KEPT), and so is the parent's block.
 */
leave_advice:
	unless_forked %rax, leave_alone
	lea	8(%rsp), %rax
	mov	%rax, SIDE(%rbx)
	sub	$128, %rax
	and	$-64, %rax
	begin_way %rbx
	mov	%rax, %gs:NEXT
	mov	RESUME(%rbx), %r10
	mov	%r10, -16(%rcx)
	ret

leave_alone:
	movq	$1, KEPT(%rbx)
	mov	RSP(%rbx), %rcx
	mov	RESUME(%rbx), %r10
	mov	%r10, -16(%rcx)
	ret

/* The function's own arguments on the program's stack, as they came. r11: the advice. Overwrites rcx, rsi and rdi. */
give_arguments:
	mov	STACK(%r11), %ecx
	jrcxz	1f
	mov	ARGUMENTS(%rbx), %rsi
	mov	RSP(%rbx), %rdi
	add	$8, %rdi
	shr	$3, %ecx
	rep movsq
1:	ret

/* void pass(): the call goes on as if there were no advice, which ends here. */
	.globl gilk_advice_pass
gilk_advice_pass:
	mov	%gs:HIGH, %rbx
	mov	OWN_CALL(%rbx), %rbx
	mov	ADVICE(%rbx), %r11
go_into_function:
	call	give_arguments
	testl	$1, FLAGS(%r11)
	jz	1f
	mov	VECTORS(%rbx), %rdi
	restore_vectors %rbx, %rdi
1:	unless_forked %rax, 3f
	begin_way %rbx
	mov	RESUME(%rbx), %r10
	mov	%r10, -16(%rcx)
	drop
2:	mov	RDI(%rbx), %rdi
	mov	RSI(%rbx), %rsi
	mov	RDX(%rbx), %rdx
	mov	RCX(%rbx), %rcx
	mov	R8(%rbx), %r8
	mov	R9(%rbx), %r9
	jmp	into_function
3:	call	leave_alone
	jmp	2b

	.section .note.GNU-stack, "", @progbits
