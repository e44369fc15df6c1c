/* SPDX-License-Identifier: GPL-2.0 */
/* The ways from patches into the driver, and from there into checked code and back. */
#include <linux/linkage.h>
#include <asm/nospec-branch.h>

#include "../../abi/gilk_regs.h"

	.text

/* Above the return address lies struct gilk_call; struct gilk_regs is built below it. Keeps all registers. */
SYM_FUNC_START(ilk_fire)
	push_registers
	mov	%rsp, %rdi
	lea	REGISTERS_SIZE + 8(%rsp), %rsi	/* behind the registers and the return address */
	call	ilk_d_hit
	pop_registers
	RET
SYM_FUNC_END(ilk_fire)

/* The probe of all tracepoints. rdi: its point; then follow the tracepoint's arguments. Keeps all registers. */
SYM_FUNC_START(ilk_point)
	push_registers
	mov	%rsp, %rdi
	lea	REGISTERS_SIZE(%rsp), %rsi	/* the return address */
	call	ilk_d_point_hit
	pop_registers
	RET
SYM_FUNC_END(ilk_point)

/*
 * Enter checked code. rdi: the code, rsi: its frame. The code keeps rbx and rsp, and changes no register that C
 * preserves.
 */
SYM_FUNC_START(ilk_d_enter)
	push	%rbx
	mov	%rsi, %rbx
	mov	%rdi, %rax
	CALL_NOSPEC rax
	pop	%rbx
	RET
SYM_FUNC_END(ilk_d_enter)

/* Checked code jumps here at its end. */
SYM_FUNC_START(ilk_d_leave)
	RET
SYM_FUNC_END(ilk_d_leave)
