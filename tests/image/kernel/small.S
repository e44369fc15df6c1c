/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A kernel in miniature: what each label is for says its name. Linked where kernels lie. */
	.macro nop5
	.byte 0x0f, 0x1f, 0x44, 0, 0
	.endm

	.text
	.globl _stext, _etext
_stext:

	.globl warns, warn_trap, behind_warn
warns:	nop5
	test %edi, %edi
	je behind_warn
warn_trap:
	ud2
behind_warn:
	mov %rsi, %rax
	jmp __x86_return_thunk

	.balign 16
	.globl bugs, bug_trap
bugs:	nop5
bug_trap:
	ud2

	.balign 16
	.globl never
never:	nop5
	call bugs

	.balign 16
	.globl calls_never
calls_never:
	nop5
	test %edi, %edi
	je 1f
	call never
1:	ret
	int3
	int3
	int3
	int3

	.balign 16
	.globl switches, key_site, key_off, key_on
switches:
	nop5
key_site:
	nop5
key_off:
	xor %eax, %eax
	ret
key_on:	mov %rdx, %rax
	ret

	.balign 16
	.globl faults, fault_site, behind_fault, fixup
faults:	nop5
fault_site:
	mov (%rdi), %eax
behind_fault:
	xor %ecx, %ecx
	ret
fixup:	mov %ecx, %eax
	ret

	.balign 16
	.globl parent, middle
parent:	nop5
	test %edi, %edi
	jne parent.cold
	xor %eax, %eax
middle:	ret

	.balign 16
	.globl halts, behind_hlt
halts:	hlt
behind_hlt:
	ret

	.balign 16
	.globl jumps_by_register, calls_by_register
jumps_by_register:
	nop5
	jmp __x86_indirect_thunk_rax
	.balign 16
calls_by_register:
	nop5
	sub $8, %rsp
	call __x86_indirect_thunk_rax
	add $8, %rsp
	ret

	.balign 16
	.globl maybe_calls, call_site, behind_call
maybe_calls:
	nop5
	mov %rsi, %rdi
call_site:
	nop5
behind_call:
	xor %edi, %edi
	ret

	.balign 16
	.globl text_poke, beyond_reach
text_poke:
	ret

	.balign 16
parent.cold:
	mov $1, %eax
	jmp middle

	.balign 32
	.globl __static_call_text_start, __static_call_text_end, __SCT__hook
__static_call_text_start:
__SCT__hook:
	jmp calls_by_register
__static_call_text_end:
	.balign 32
	.globl __indirect_thunk_start, __indirect_thunk_end, __x86_indirect_thunk_rax, __x86_return_thunk
__indirect_thunk_start:
__x86_indirect_thunk_rax:
	jmp *%rax
	.balign 32
__x86_return_thunk:
	ret
__indirect_thunk_end:
_etext:

	.data
	.globl __start___ex_table, __stop___ex_table, __start___jump_table, __stop___jump_table
	.globl __start___bug_table, __stop___bug_table, __start_static_call_sites, __stop_static_call_sites
	.globl __start_rodata, __end_rodata, __SCK__hook
__start_rodata:
	.quad middle, _stext
__end_rodata:
__start___ex_table:
	.long fault_site - ., fixup - ., 3
__stop___ex_table:
__start___jump_table:
	.long key_site - ., key_on - .
	.quad 0
__stop___jump_table:
__start___bug_table:
	.long warn_trap - ., 0
	.short 1, 1
	.long bug_trap - ., 0
	.short 2, 0
__stop___bug_table:
__start_static_call_sites:
	.long call_site - ., __SCK__hook - .
__stop_static_call_sites:
	.balign 8
__SCK__hook:
	.quad 0
