/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * From a patch at an access of a variable to its advice, on the stack of advice, and back (abi/gilk_access.h). The
 * patch:
 *
 *	lea -256(%rsp),%rsp; ... ; lea SITE(%rip),%r11; call gilk_access_enter
 *
 * with struct gilk_access at the stack pointer, the red zone above it, and the direction flag clear. All registers but
 * r11, which is the program's again, and the flags are what they were. Where there is no advice to run the patch goes
 * on at the site's `failed`.
 */
#include "../abi/gilk_access.h"
#include "../abi/gilk_regs.h"
#include "advising.h"

	.section .text.thunks, "ax"

	.set	FRAME, GILK_ACCESS_FRAME
	.set	FRAME_R11, 72
	.set	FRAME_RBP, 112
	.set	SITE_VECTORS, 8
	.set	OWN, 24			/* pushed before the frame: the return address, rax, flags */
	.set	SAVED, 72		/* bytes pushed besides once there is advice to run */

/*
 * Give a child that advice has forked a block of its own, since its parent goes on using the block that GS points at. It
 * claims one as a thread without a block does; go to \stranger if there is none. Overwrites flags.
 */
	.macro	own_block register, stranger
	rdfsbase \register
	add	gilk_key(%rip), \register
	cmp	%gs:0, \register
	jne	97f
98:
	.subsection 1
97:	call	gilk_claim_thunk
	jc	\stranger
	jmp	98b
	.previous
	.endm

	.globl gilk_access_enter
gilk_access_enter:
	push	%rax
	lahf
	seto	%al
	push	%rax
	may_begin OWN+FRAME-8		/* a call that began exactly at the stack pointer is not over */

	push	%rbx
	push	%rcx
	push	%rdx
	push_arguments
	mov	%rsp, %rbx
	mov	%rbp, SAVED+OWN+FRAME_RBP(%rsp)
	lea	SAVED+OWN+FRAME(%rsp), %rax
	mov	%rax, %gs:LEFT
	mov	%r11, %gs:RUNNING	/* C reads it there (include/gilk_variable.h) */
	mov	%gs:NEXT, %rsp
	testl	$1, SITE_VECTORS(%r11)
	jz	4f
	sub	$AREA, %rsp
	save_vectors
4:	lea	SAVED+OWN(%rbx), %rdi
	mov	%r11, %rsi
	movslq	4(%r11), %rax
	lea	8(%r11,%rax), %rax
	call	*%rax
	mov	(%rbx), %r11
	testl	$1, SITE_VECTORS(%r11)
	jz	5f
	mov	$PARTS, %eax
	xor	%edx, %edx
	xrstor64 (%rsp)
5:	mov	%rbx, %rsp
	own_block %rcx, 9f
	movq	$0, %gs:RUNNING
9:	pop_arguments
	pop	%rdx
	pop	%rcx
	pop	%rbx
6:	pop	%rax
	add	$127, %al
	sahf
	pop	%rax
	mov	8+FRAME_R11(%rsp), %r11
	ret

	.subsection 1
	unusual_begin OWN+FRAME-8
7:	movslq	(%r11), %rax
	lea	4(%r11,%rax), %rax
	mov	%rax, 16(%rsp)
	jmp	6b
	too_late_to_begin
	.previous

/*
 * A debug register has shown an access. The keeper has set the stack pointer to struct gilk_access, and this as the
 * instruction pointer; all other registers are the program's. The advice on the read comes first. The last instruction
 * takes the program's address and the whole frame off the stack at once: a signal handler may run before or after it.
 */
	.set	FRAME_FLAGS, 80
	.set	FRAME_READ, 88
	.set	FRAME_WRITE, 96
	.set	FRAME_BACK, 120

	.globl gilk_trapped
gilk_trapped:
	pushf
	pop	FRAME_FLAGS(%rsp)
	cld
	mov	FRAME_READ(%rsp), %r11
	test	%r11, %r11
	jz	1f
	call	gilk_access_enter
	.globl gilk_trapped_read
gilk_trapped_read:
1:	mov	FRAME_WRITE(%rsp), %r11
	test	%r11, %r11
	jz	2f
	call	gilk_access_enter
	.globl gilk_trapped_written
gilk_trapped_written:
2:	mov	FRAME_R11(%rsp), %r11
	push	FRAME_FLAGS(%rsp)
	popf
	lea	FRAME_BACK(%rsp), %rsp
	ret	$FRAME-FRAME_BACK-8

	.section .note.GNU-stack, "", @progbits
