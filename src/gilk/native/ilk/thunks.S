/* SPDX-License-Identifier: GPL-2.0 */
/* The ways from generated code into C; see SYMBOLS in ilk_abi.h. */
#include <linux/linkage.h>
#include <asm/nospec-branch.h>

#include "../abi/gilk_regs.h"

	.text

/* Reserve a record in ring eax. Returns its address in rax, or 0; keeps all other registers. */
SYM_FUNC_START(ilk_reserve)
	pushf
	cld				/* C expects this; the interrupted code may be copying backwards */
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

/* Above the return address lie pc, shift, function and iid; struct gilk_regs is built below it. Keeps all registers. */
SYM_FUNC_START(ilk_registers)
	push_registers
	mov	%rsp, %rdi
	lea	REGISTERS_SIZE + 8(%rsp), %rsi	/* behind the registers and the return address */
	call	ilk_dispatch
	pop_registers
	RET
SYM_FUNC_END(ilk_registers)
