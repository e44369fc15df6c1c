/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From the program's stack to the stack of its advice, and back (runtime/advice.h). A patch comes here by a jump, at a
 * function's entry or at a return:
 *
 *	lea -128(%rsp),%rsp; push %r11; lea END(%rip),%r11; push %r11; lea ADVICE(%rip),%r11; jmp gilk_advice_...;
 *	jmp AGAIN; END:
 *
 * or with the address of a list in place of ADVICE's. At END the stack pointer and all registers but the flags are what
 * they were. At AGAIN the patch looks up which call returns here, and returns itself if no call with advice does.
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

/* Go back to the patch. rsp points at the words that the patch has pushed. */
	.macro	go_on
	mov	(%rsp), %r11
	mov	%r11, PUSHED-16(%rsp)
	mov	8(%rsp), %r11
	lea	PUSHED(%rsp), %rsp
	jmp	*-16(%rsp)
	.endm

/* Restore all vector registers as they were at the entry, from \area. Overwrites rax and rdx. */
	.macro	restore_vectors activation, area
	stmxcsr	CONTROL(\activation)
	mov	$PARTS, %eax
	xor	%edx, %edx
	xrstor64 (\area)
	ldmxcsr	CONTROL(\activation)
	.endm

/*
 * Within advice: go to \child in a process that the advice has forked, whose key is not that of the entry. The block
 * belongs to the parent, which goes on using it. Overwrites \register and flags.
 */
	.macro	unless_forked register, child
	mov	gilk_key(%rip), \register
	cmp	ITS_KEY(%rbx), \register
	jne	\child
	.endm

/* Leave the side stack: nothing else may begin on it until `running` is 0 again. Overwrites rcx. */
	.macro	begin_way activation
	mov	RSP(\activation), %rcx
	mov	%rcx, %gs:LEFT
	movq	$1, %gs:RUNNING
	.endm

/* Drop the activation in rbx, which is over. Overwrites rcx. */
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

/* Restore all registers from the activation in rbx, except those that hold the result. */
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

/*
 * Restore all registers but rax and rdx from the activation in rbx of advice that has returned by itself. \stack is rcx
 * and holds the program's stack pointer.
 */
	.macro	take_back_from stack
	mov	-PUSHED+8(\stack), %r11
	mov	RSI(%rbx), %rsi
	mov	RDI(%rbx), %rdi
	mov	R8(%rbx), %r8
	mov	R9(%rbx), %r9
	mov	R10(%rbx), %r10
	mov	\stack, %rsp
	mov	RCX(%rbx), %rcx
	mov	RBX(%rbx), %rbx
	.endm

/*
 * Begin an activation for the thread's next place on its stack of advice: rsp points at it then, which has the registers
 * of arguments, and rax is the program's stack pointer. Those who walk the stack read rbp there (include/gilk_walk.h).
 */
	.macro	begin_activation
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
	.endm

/* Fill in what rbx, an activation, says of its call. rax is the program's stack pointer. Overwrites rcx. */
	.macro	link_activation
	mov	%rax, RSP(%rbx)
	mov	(%rax), %rcx
	mov	%rcx, CALLER(%rbx)
	mov	gilk_key(%rip), %rcx
	mov	%rcx, ITS_KEY(%rbx)
	mov	%r11, ADVICE(%rbx)
	mov	%gs:NEWEST, %rcx
	mov	%rcx, PREVIOUS(%rbx)
	.endm

/* The advice of the activation in rbx runs from here on. Overwrites rcx. */
	.macro	advice_runs
	mov	%rbx, %gs:RUNNING
	mov	%gs:HIGH, %rcx
	mov	%rbx, OWN_CALL(%rcx)
	.endm

/* Copy ecx bytes of arguments on the stack to the stack of advice. Overwrites rcx, rsi and rdi. */
	.macro	copy_stack_arguments
	lea	15(%rcx), %rsi
	and	$-16, %rsi
	sub	%rsi, %rsp
	mov	RSP(%rbx), %rsi
	add	$8, %rsi
	mov	%rsp, %rdi
	shr	$3, %ecx
	rep movsq
	.endm

/*
 * Restore the vector registers from the area at rdi, and keep those that may hold a result below it. rax and rdx stay;
 * \slot of the activation in rbx is free. Overwrites rsi.
 */
	.macro	restore_behind_results slot
	mov	%rax, \slot(%rbx)
	mov	%rdx, %rsi
	movups	%xmm0, -32(%rdi)
	movups	%xmm1, -16(%rdi)
	restore_vectors %rbx, %rdi
	mov	\slot(%rbx), %rax
	mov	%rsi, %rdx
	.endm

/* A function with advice has been entered. */
	.globl gilk_advice_enter
gilk_advice_enter:
	push	%rax
	may_begin PUSHED+8

	begin_activation
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
	link_activation
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
	cmova	%rcx, %rax		/* above an activation of another stack: look closer at each return */
	mov	%rax, ITS_SHOWN(%rbx)
	mov	%rbx, %gs:NEWEST
	mov	%rax, %gs:SHOWN
	advice_runs

	testl	$1, FLAGS(%r11)
	jz	4f
	sub	$AREA, %rsp
	mov	%rsp, VECTORS(%rbx)
	save_vectors
4:	mov	STACK(%r11), %ecx
	jrcxz	5f
	copy_stack_arguments
	mov	%rsp, ARGUMENTS(%rbx)
5:	mov	STACK(%r11), %ecx
	add	MORE(%r11), %ecx
	jrcxz	6f
	copy_stack_arguments
6:	mov	RDI(%rbx), %rdi
	mov	RSI(%rbx), %rsi
	mov	RDX(%rbx), %rdx
	mov	RCX(%rbx), %rcx
	mov	R8(%rbx), %r8
	mov	R9(%rbx), %r9
	mov	R10(%rbx), %r10
	mov	RAX(%rbx), %rax
	call	*ENTRY(%r11)

	/* The advice has returned: its result becomes the function's. rbx, which C preserves, has the activation. */
	mov	ADVICE(%rbx), %r11
	testl	$2, FLAGS(%r11)
	jnz	go_into_function
	testl	$1, FLAGS(%r11)
	jz	7f
	mov	VECTORS(%rbx), %rdi
	restore_behind_results KEPT
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
	/* The call also belongs to a function that has jumped to this one: the patch looks up which. */
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

/*
 * A function has been entered whose advice never calls it, but stands in its place, or lets the call go on behind it.
 * The activation serves the advice only: it is none of the thread's calls, since nothing returns to it, and need not
 * hold what C preserves. The words that the patch has pushed stay on the program's stack meanwhile.
 */
	.globl gilk_advice_brief
gilk_advice_brief:
	push	%rax
	may_begin PUSHED+8

	begin_activation
	mov	%rsp, %rbx
	link_activation
	movq	$0, KEPT(%rbx)		/* not 0: the call goes on (include/gilk_calls.h) */
	advice_runs

	testl	$1, FLAGS(%r11)
	jz	4f
	sub	$AREA, %rsp
	save_vectors
	mov	RSP(%rbx), %rax
	mov	RDX(%rbx), %rdx
4:	mov	STACK(%r11), %ecx
	add	MORE(%r11), %ecx
	jnz	20f
5:	mov	RCX(%rbx), %rcx
	mov	-PUSHED-8(%rax), %rax
	call	*ENTRY(%r11)

	mov	ADVICE(%rbx), %r11
	testl	$3, FLAGS(%r11)
	jnz	21f
6:	cmpq	$0, KEPT(%rbx)
	jne	24f
	mov	RSP(%rbx), %rcx
	testb	$1, RESULTS(%r11)
	jz	22f
7:	testb	$2, RESULTS(%r11)
	jnz	8f
	mov	RDX(%rbx), %rdx
8:	unless_forked %r11, 10f
	mov	%gs:NEWEST, %r11
	test	%r11, %r11
	jnz	23f
9:	take_back_from %rcx
	movq	$0, %gs:RUNNING
	ret

	.subsection 1
10:	take_back_from %rcx
	ret
20:	copy_stack_arguments
	mov	RSI(%rbx), %rsi
	mov	RDI(%rbx), %rdi
	jmp	5b
	/* Restore the vector registers, apart from those that hold a result. */
21:	testl	$1, FLAGS(%r11)
	jz	26f
	lea	-AREA(%rbx), %rdi
	restore_behind_results SIDE
	testl	$2, FLAGS(%r11)
	jnz	24f
	cmpq	$0, KEPT(%rbx)
	jne	24f
	testb	$4, RESULTS(%r11)
	jz	25f
	movups	-32(%rdi), %xmm0
25:	testb	$8, RESULTS(%r11)
	jz	6b
	movups	-16(%rdi), %xmm1
	jmp	6b
26:	testl	$2, FLAGS(%r11)
	jz	6b
	/* The call goes on. */
24:	mov	RSP(%rbx), %rcx
	mov	-PUSHED(%rcx), %rax
	mov	%rax, -16(%rcx)
	mov	-PUSHED-8(%rcx), %rax
	mov	RDX(%rbx), %rdx
	unless_forked %r11, 27f
	take_back_from %rcx
	movq	$0, %gs:RUNNING
	jmp	*-16(%rsp)
27:	take_back_from %rcx
	jmp	*-16(%rsp)
22:	mov	-PUSHED-8(%rcx), %rax
	jmp	7b
	/* The call may also belong to a function that has jumped to this one: the patch looks up which. */
23:	cmp	RSP(%r11), %rcx
	jne	9b
	mov	-PUSHED(%rcx), %r11
	lea	-5(%r11), %r11
	mov	%r11, -16(%rcx)
	take_back_from %rcx
	movq	$0, %gs:RUNNING
	jmp	*-16(%rsp)
	unusual_begin PUSHED+8
7:	pop	%rax
	go_on
	too_late_to_begin
	.previous

/* A function returns in which a call with advice may end. r11: the list of that advice. */
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
	mov	4(%r11,%rax), %rax	/* the first advice of the list */
	cmp	ADVICE(%rcx), %rax
	jne	60f
2:	cmpq	$0, SIDE(%rcx)
	je	3f			/* the advice has not called the function yet: another call returns */
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
 * Load the newest activation into rcx. Go to 1 if it belongs to another call than that at the patch's stack pointer,
 * and to 2 if there is none. r11: a list. Keeps the flags, except for the direction flag.
 */
	.macro	begin_look
	push	%rax
	push	%rcx
	lahf
	seto	%al
	push	%rax
9:	rdfsbase %rax
	add	gilk_key(%rip), %rax
	cmp	%gs:0, %rax
	jne	8f
	mov	%gs:NEWEST, %rcx
	jrcxz	2f
	lea	PUSHED+24(%rsp), %rax
	cmp	RSP(%rcx), %rax
	jne	1f
	.subsection 1
8:	cmpq	$0, gilk_key(%rip)	/* no thread has claimed a block in this arena yet */
	jne	7f
	call	gilk_claim_thunk
	jnc	9b
7:	jmp	2f
	.previous
	.endm

	.macro	end_look function
	jmp	2f
1:	lea	PUSHED+24(%rsp), %rax
	end_asking \function
	.endm

	.macro	end_asking function
	ask	\function
2:	pop	%rax
	add	$127, %al
	sahf
	pop	%rcx
	pop	%rax
	go_on
	.endm

	.macro	first_of_list		/* go to 1 unless it is the activation's advice. Overwrites rax. */
	movslq	(%r11), %rax
	mov	4(%r11,%rax), %rax
	cmp	ADVICE(%rcx), %rax
	jne	1f
	.endm

/* A function has been entered to which a function with advice may jump. */
	.globl gilk_advice_reached
gilk_advice_reached:
	begin_look
	cmpq	$0, PASSED(%rcx)
	je	1f
	movq	$0, PASSED(%rcx)
	end_look gilk_advice_prune_reached

/* A function that may have advice is about to jump to such a function. */
	.globl gilk_advice_jumps
gilk_advice_jumps:
	begin_look
	first_of_list
	movq	$1, PASSED(%rcx)
	end_look gilk_advice_pass_on

/* It has not jumped after all. */
	.globl gilk_advice_stays
gilk_advice_stays:
	begin_look
	first_of_list
	movq	$0, PASSED(%rcx)
	end_look gilk_advice_keep

/* Go to 1 if there are calls with advice that may be left, and else to 2. */
	.macro	begin_leaving
	begin_look
	jmp	1f
	.endm

/* longjmp(env) has been entered. The stack pointer is the seventh word of env; glibc has encoded it. */
	.globl gilk_advice_jumps_back
gilk_advice_jumps_back:
	begin_leaving
1:	mov	48(%rdi), %r11
	mov	%r11, %rax
	ror	$17, %rax
	xor	%fs:0x30, %rax
	end_asking gilk_advice_longjmp

/*
 * The unwinder is told where to go on: _Unwind_SetIP(context, address). The context has the stack pointer of the
 * function that goes on, where session/leaving.py has looked that _Unwind_GetCFA() takes it from.
 */
	.globl gilk_advice_unwinds
gilk_advice_unwinds:
	begin_leaving
1:	mov	144(%rdi), %rax
	end_asking gilk_advice_unwound

/* T proceed(): call the function with the arguments as they came. */
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

/* Restore the caller's \register if the function has fewer than \number arguments in general registers. */
	.macro	restore_unless_given number, saved, register
	cmpb	$\number, INTEGERS(%r11)
	jae	into_function
	mov	\saved(%rbx), \register
	.endm

/*
 * T proceed(...): call the function with other arguments, which lie where C puts them. Argument registers that the
 * function does not use keep the caller's values: the caller may count on that, and the advice may be removed before
 * the function returns.
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

/* Enter the function. rbx: the activation; the arguments are in place, and `running` is 1. */
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
 * Save the advice's stack pointer, above the return address, and begin the way back. Overwrites rax, rcx and r10. In a
 * child that the advice has forked nothing is saved: the function runs without advice (KEPT), and the parent's block is
 * not touched.
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

/*
 * Put the arguments that came on the stack back onto the program's stack. r11: the advice. Overwrites rcx, rsi and rdi.
 */
give_arguments:
	mov	STACK(%r11), %ecx
	jrcxz	1f
	mov	ARGUMENTS(%rbx), %rsi
	mov	RSP(%rbx), %rdi
	add	$8, %rdi
	shr	$3, %ecx
	rep movsq
1:	ret

/* void pass(): end the advice, and let the call go on as if there were none. */
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
