/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The registers at a point, in a process and in the kernel alike: as C sees them, and as code that is entered from a
 * patch pushes and pops them. Numbers have the types of the host: in the kernel those that its printk() takes.
 */
#ifndef GILK_REGS_H
#define GILK_REGS_H

#ifndef __ASSEMBLER__

#ifdef __KERNEL__
#include <linux/types.h>
typedef u8 gilk_u8;
typedef u32 gilk_u32;
typedef u64 gilk_u64;
#else
typedef unsigned char gilk_u8;
typedef unsigned int gilk_u32;
typedef unsigned long gilk_u64;
#endif

/* The machine at the point, before its instruction. rip is the original address. */
struct gilk_regs {
	gilk_u64 rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi;
	gilk_u64 r8, r9, r10, r11, r12, r13, r14, r15;
	gilk_u64 rip, rflags;
};

/* A patch has pushed these for an instrument that takes them, above the address that it comes back to. */
struct gilk_call {
	gilk_u64 pc;	   /* of the point */
	gilk_u64 shift;	   /* from behind this to where the stack pointer was there */
	gilk_u64 function; /* in a process, from where the arena's code begins */
	gilk_u64 iid;
};

#else

/* The registers that C may change, besides rax, rcx and rdx. */
	.macro	push_arguments
	push	%rsi
	push	%rdi
	push	%r8
	push	%r9
	push	%r10
	push	%r11
	.endm

	.macro	pop_arguments
	pop	%r11
	pop	%r10
	pop	%r9
	pop	%r8
	pop	%rdi
	pop	%rsi
	.endm

/* rsp then is at a struct gilk_regs, whose rip and rsp are to be filled in. The point may lie in a copy that goes down. */
	.macro	push_registers
	pushfq
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
	cld
	.endm

	.macro	pop_registers
	pop	%rax
	pop	%rcx
	pop	%rdx
	pop	%rbx
	lea	8(%rsp), %rsp
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
	lea	8(%rsp), %rsp
	popfq
	.endm

	.set	REGISTERS_SIZE, 18 * 8

#endif
#endif
