/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* void avx_rotate(const lanes *in, lanes *out, long turns), see avx.c. */
	.text
	.globl avx_rotate, avx_quiet
	.type avx_rotate, @function
avx_rotate:
	.cfi_startproc
	pushq	%rbx
	.cfi_def_cfa_offset 16
	.cfi_offset rbx, -16
	movq	%rdx, %rbx
	.irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	vmovdqu	32*\r(%rdi), %ymm\r
	.endr
.Lturn:
	testq	%rbx, %rbx
	jz	.Lstore
	vpaddq	%ymm0, %ymm1, %ymm1
	vpaddq	%ymm1, %ymm2, %ymm2
	vpaddq	%ymm2, %ymm3, %ymm3
	testb	$1, %bl
	jz	.Lskip
	call	avx_quiet
.Lskip:
	vpaddq	%ymm3, %ymm4, %ymm4
	vpaddq	%ymm4, %ymm5, %ymm5
	vpaddq	%ymm5, %ymm6, %ymm6
	vpaddq	%ymm6, %ymm7, %ymm7
	vpaddq	%ymm7, %ymm8, %ymm8
	vpaddq	%ymm8, %ymm9, %ymm9
	vpaddq	%ymm9, %ymm10, %ymm10
	vpaddq	%ymm10, %ymm11, %ymm11
	call	avx_quiet
	vpaddq	%ymm11, %ymm12, %ymm12
	vpaddq	%ymm12, %ymm13, %ymm13
	vpaddq	%ymm13, %ymm14, %ymm14
	vpaddq	%ymm14, %ymm15, %ymm15
	vpaddq	%ymm15, %ymm0, %ymm0
	decq	%rbx
	jmp	.Lturn
.Lstore:
	.irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
	vmovdqu	%ymm\r, 32*\r(%rsi)
	.endr
	vzeroupper
	popq	%rbx
	.cfi_def_cfa_offset 8
	ret
	.cfi_endproc
	.size avx_rotate, .-avx_rotate

/* Several blocks that touch no vector register. */
	.type avx_quiet, @function
avx_quiet:
	.cfi_startproc
	movl	$3, %ecx
.Lagain:
	leal	(%rcx,%rcx,2), %eax
	testb	$1, %al
	jz	.Leven
	incl	%eax
.Leven:
	decl	%ecx
	jnz	.Lagain
	ret
	.cfi_endproc
	.size avx_quiet, .-avx_quiet
	.section .note.GNU-stack,"",@progbits
