/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A program of known counts, without libc, for the stepper: the number in a label is how often it is executed.
 * A SIGUSR1 it sends itself, a thread, a rep string instruction, a self-loop and faults are in it.
 */
	.set	SYS_exit, 60
	.set	SYS_exit_group, 231
	.set	SYS_rt_sigaction, 13
	.set	SYS_rt_sigreturn, 15
	.set	SYS_clone, 56
	.set	SYS_gettid, 186
	.set	SYS_getpid, 39
	.set	SYS_tgkill, 234

	.text
	.globl	_start
_start:
at_1_entry:
	movl	$7, %ebx
at_7_loop:
	call	leaf
	decl	%ebx
at_7_branch:
	jnz	at_7_loop
at_1_after:
	/* rep stosb of 100 bytes, three times: an instruction each */
	movl	$3, %ebx
at_3_fill:
	leaq	buffer(%rip), %rdi
	movl	$100, %ecx
	xorl	%eax, %eax
at_3_rep:
	rep stosb
	decl	%ebx
	jnz	at_3_fill
	/* rep stosb of no bytes, once */
at_1_rep_none:
	rep stosb
	/* an instruction that jumps to itself: loop, ten times */
	movl	$10, %ecx
at_10_self:
	loop	at_10_self

	/* a handler, and five signals to it */
	movl	$SYS_rt_sigaction, %eax
	movl	$10, %edi
	leaq	action(%rip), %rsi
	xorl	%edx, %edx
	movl	$8, %r10d
	syscall
	movl	$SYS_rt_sigaction, %eax
	movl	$11, %edi
	leaq	fault_action(%rip), %rsi
	syscall
	movl	$SYS_gettid, %eax
	syscall
	movl	%eax, %r12d
	movl	$SYS_getpid, %eax
	syscall
	movl	%eax, %r13d
	movl	$5, %ebx
at_5_signal:
	movl	%r13d, %edi
	movl	%r12d, %esi
	movl	$10, %edx
	movl	$SYS_tgkill, %eax
at_5_syscall:
	syscall
at_5_interrupted:
	decl	%ebx
	jnz	at_5_signal

	/* four loads that fault; the handler steps over them */
	movl	$4, %ebx
at_4_faulting:
	movq	0, %rax
at_4_skipped:
	decl	%ebx
	jnz	at_4_faulting

	/* a thread runs leaf 6 times while this one does 8 times */
	movl	$SYS_clone, %eax
	movl	$0x250f00, %edi		/* VM FS FILES SIGHAND THREAD SYSVSEM CHILD_CLEARTID */
	leaq	stack_end(%rip), %rsi
	xorl	%edx, %edx
	leaq	alive(%rip), %r10
	xorl	%r8d, %r8d
	syscall
	testl	%eax, %eax
	jz	at_1_thread
	movl	$8, %ebx
at_8_beside:
	call	leaf
	decl	%ebx
	jnz	at_8_beside
wait:	cmpl	$0, alive(%rip)		/* the kernel clears it when the thread has gone */
	jne	wait
at_1_end:
	movl	$SYS_exit_group, %eax
	movl	$42, %edi
	syscall

at_1_thread:
	movl	$6, %ebx
at_6_beside:
	call	leaf
	decl	%ebx
	jnz	at_6_beside
	movl	$SYS_exit, %eax
	xorl	%edi, %edi
	syscall
at_0_never:
	ud2

leaf:
at_21_leaf:
	nop
at_21_return:
	ret

handler:
at_5_handler:
	nop
	ret
fault_handler:
at_4_handler:
	addq	$8, 168(%rdx)		/* rip in ucontext; the load is eight bytes long */
	ret
restorer:
at_9_restorer:
	movl	$SYS_rt_sigreturn, %eax
	syscall

	.data
	.balign	8
alive:	.long	1
	.balign	8
action:	.quad	handler, 0x04000004, restorer, 0	/* SA_RESTORER, SA_SIGINFO */
fault_action:
	.quad	fault_handler, 0x04000004, restorer, 0
	.bss
	.balign	16
buffer:	.skip	128
	.skip	4096
stack_end:
	.section .note.GNU-stack,"",@progbits
