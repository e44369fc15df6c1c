/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What all ways into advice share: offsets in struct gilk_block (abi/gilk_abi.h), sizes, and how they ask C. gilk_regs.h
 * comes first.
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
	.set	STACK_SIZE, 1 << 20
	.set	LEAST, 1 << 16		/* of that, for advice that begins */

	.set	AREA, 2688		/* of xsave, with the parts in PARTS */
	.set	PARTS, 0xe6		/* xmm, ymm, opmask, zmm: no x87, no protection keys */

/* Call C with rax as its argument, and a second one in r11; rax is its result. Keeps all else. */
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

#endif
