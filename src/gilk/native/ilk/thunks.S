/* SPDX-License-Identifier: GPL-2.0 */
/* The ways from generated code into C; see SYMBOLS in ilk_abi.h. */
#include <linux/linkage.h>
#include <asm/nospec-branch.h>

	.text

/* eax: the ring; gives rax: the record or 0. Keeps everything but rax. */
SYM_FUNC_START(ilk_reserve)
	pushf
	cld				/* as above C it must be; a copy may be going backwards */
	push	%rcx
	push	%rdx
	push	%rsi
	push	%rdi
	push	%r8
	push	%r9
	push	%r10
	push	%r11
	mov	%eax, %edi
	call	ilk_reserve_slow
	pop	%r11
	pop	%r10
	pop	%r9
	pop	%r8
	pop	%rdi
	pop	%rsi
	pop	%rdx
	pop	%rcx
	popf
	RET
SYM_FUNC_END(ilk_reserve)

/* Above the return address: pc, shift, function, iid; below, struct gilk_regs. Keeps everything. */
SYM_FUNC_START(ilk_registers)
	pushf
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
	cld				/* the point may lie in a copy that goes backwards */
	mov	%rsp, %rdi
	lea	152(%rsp), %rsi		/* behind 18 words of registers and the return address */
	call	ilk_dispatch
	pop	%rax
	pop	%rcx
	pop	%rdx
	pop	%rbx
	add	$8, %rsp
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
	add	$8, %rsp
	popf
	RET
SYM_FUNC_END(ilk_registers)
