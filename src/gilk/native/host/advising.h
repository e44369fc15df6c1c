/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Shared by all thunks that lead to advice: offsets in struct gilk_block (abi/gilk_abi.h), sizes, and macros that call
 * C. Include gilk_regs.h first.
 */
#ifndef GILK_ADVISING_H
#define GILK_ADVISING_H

	.set	NESTED, 40		/* abi/gilk_abi.h: struct gilk_block */
	.set	SHOWN, 200
	.set	NEXT, 208
	.set	NEWEST, 216
	.set	RUNNING, 224
	.set	LEFT, 232
	.set	HIGH, 240
	.set	SKIPPED, 248
	.set	OWN_CALL, -8		/* from where the stack of advice ends: runtime/advice.h */
	.set	STACK_SIZE, 1 << 20
	.set	LEAST, 1 << 16		/* bytes of its stack that advice must have left to begin */

	.set	AREA, 2688		/* of xsave, with the parts in PARTS */
	.set	PARTS, 0xe6		/* xmm, ymm, opmask, zmm: no x87, no protection keys */

/* Call a C function with rax and r11 as its arguments. Its result is in rax; all other registers are kept. */
	.macro	ask	function
	push	%rbp
	mov	%rsp, %rbp
	push	%rcx
	push	%rdx
	push_arguments
	mov	%rax, %rdi
	mov	%r11, %rsi
	and	$-16, %rsp
	call	\function
	lea	-64(%rbp), %rsp
	pop_arguments
	pop	%rdx
	pop	%rcx
	pop	%rbp
	.endm

/* Save the vector registers in the area at the stack pointer. Overwrites rax and rdx. */
	.macro	save_vectors
	xor	%eax, %eax		/* the header must be zero before xsave */
	.irp	word, 512, 520, 528, 536, 544, 552, 560, 568
	mov	%rax, \word(%rsp)
	.endr
	mov	$PARTS, %eax
	xor	%edx, %edx
	xsave64	(%rsp)
	.endm

/*
 * Check that advice may begin in this thread. The program's stack pointer was rsp plus \above where the patch began. If
 * advice may not begin, or not at once, go to one of 50 to 80 (unusual_begin, too_late_to_begin). Overwrites rax and
 * flags.
 */
	.macro	may_begin above
1:	rdfsbase %rax
	add	gilk_key(%rip), %rax
	cmp	%gs:0, %rax
	jne	50f
	cmpq	$0, %gs:HIGH
	je	50f
2:	cmpq	$0, %gs:RUNNING
	jne	60f
	lea	\above(%rsp), %rax
	cmp	%gs:SHOWN, %rax
	jae	70f
3:	mov	%gs:HIGH, %rax
	sub	%gs:NEXT, %rax
	cmp	$STACK_SIZE - LEAST, %rax
	ja	80f
	.endm

/* The thread has no block yet, or is within advice. Where advice cannot begin, go to 7, which follows. */
	.macro	unusual_begin above
50:	call	gilk_claim_thunk
	jc	7f
	cmpq	$0, %gs:HIGH
	jne	1b
	jmp	7f			/* there are no stacks yet */
60:	mov	%gs:HIGH, %rax
	sub	%rsp, %rax
	cmp	$STACK_SIZE, %rax
	jb	62f
	lea	\above(%rsp), %rax
	ask	gilk_advice_is_inside
	test	%eax, %eax
	jz	2b
62:	incq	%gs:NESTED
	.endm

/* Activations of calls that are over take up room, or no room is left. */
	.macro	too_late_to_begin
70:	ask	gilk_advice_prune
	jmp	3b
80:	incq	%gs:SKIPPED
	jmp	7b
	.endm

#endif
