/* SPDX-License-Identifier: GPL-2.0 */
/* The ways from generated code into C; see SYMBOLS in ilk_abi.h. */
#include <linux/linkage.h>
#include <asm/nospec-branch.h>

#include "../abi/gilk_regs.h"

	.text

/* eax: the ring; gives rax: the record or 0. Keeps everything but rax. */
SYM_FUNC_START(ilk_reserve)
	pushf
	cld				/* as above C it must be; a copy may be going backwards */
	push	%rcx
	push	%rdx
	push_arguments
	mov	%eax, %edi
	call	ilk_reserve_slow
	pop_arguments
	pop	%rdx
	pop	%rcx
	popf
	RET
SYM_FUNC_END(ilk_reserve)

/* Above the return address: pc, shift, function, iid; below, struct gilk_regs. Keeps everything. */
SYM_FUNC_START(ilk_registers)
	push_registers
	mov	%rsp, %rdi
	lea	REGISTERS_SIZE + 8(%rsp), %rsi	/* behind the registers and the return address */
	call	ilk_dispatch
	pop_registers
	RET
SYM_FUNC_END(ilk_registers)
