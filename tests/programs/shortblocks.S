/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Blocks too short for a jump, and the corners of control flow: shortblocks.c says what each returns. */
	.text
	.macro function name
	.globl \name
	.type \name, @function
\name:
	.cfi_startproc
	.endm
	.macro end name
	.cfi_endproc
	.size \name, .-\name
	.endm

/* sb_ones(n): enters a run of one-byte blocks at number n. eax=1, edx=2, ecx=3. */
	function sb_ones
	movl	$1, %eax
	movl	$2, %edx
	movl	$3, %ecx
	cmpl	$1, %edi
	je	.Lone1
	cmpl	$2, %edi
	je	.Lone2
	cmpl	$3, %edi
	je	.Lone3
	cmpl	$4, %edi
	je	.Lone4
	cmpl	$5, %edi
	je	.Lone5
	cmpl	$6, %edi
	je	.Lone6
	addl	$100, %eax
.Lone1:	xchgl	%eax, %edx
.Lone2:	xchgl	%eax, %ecx
.Lone3:	cwtl
.Lone4:	nop
.Lone5:	xchgl	%eax, %edx
.Lone6:	ret
	end sb_ones

/* sb_pushes(n): pushes n of four 1-byte blocks, pops them in as many. Returns 4 pushed values shifted together. */
	function sb_pushes
	xorl	%eax, %eax
	leaq	.Lafter(%rip), %rdx
	testb	$1, %dil
	jz	.Lpush
	leaq	.Lother(%rip), %rdx
.Lpush:	pushq	%rdx
	.cfi_adjust_cfa_offset 8
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	jmp	.Lpop
.Lspare:
	int3
.Lpop:	popq	%rax
	.cfi_adjust_cfa_offset -8
	jmp	.Lgo
	nop
.Lgo:	ret				/* used as a jump, to one of the next two */
	.cfi_adjust_cfa_offset -8
.Lafter:
	addl	$10, %eax
	ret
.Lother:
	addl	$20, %eax
	ret
	end sb_pushes

/* sb_twos(n): two-byte blocks only, from .Ltwo on; every one is a target. */
	function sb_twos
	xorl	%eax, %eax
	jmp	.Ltwo4
.Ltwo1:	incl	%eax
.Ltwo2:	addl	%edi, %eax
.Ltwo3:	decl	%edi
.Ltwo4:	testl	%edi, %edi
.Ltwo5:	jz	.Ltwo9
.Ltwo6:	testb	$1, %al
	jz	.Ltwo1
.Ltwo7:	jmp	.Ltwo8
.Ltwo8:	jmp	.Ltwo2
.Ltwo9:	ret
	end sb_twos

/* sb_threes(n): three- and four-byte blocks. */
	function sb_threes
	xorl	%eax, %eax
	cmpl	$3, %edi
	ja	.Lfour1
	je	.Lthree2
.Lthree1:
	leal	1(%rax), %eax
.Lthree2:
	addl	$3, %eax
.Lthree3:
	addl	$1, %edi
	cmpl	$5, %edi
	jb	.Lthree1
	je	.Lfour2
	cmpl	$9, %edi
	jb	.Lthree2
.Lfour1:
	leal	1(%rax,%rdi), %eax
.Lfour2:
	leal	2(%rax,%rdi), %eax
	cmpl	$7, %edi
	jb	.Lthree3
	ret
	end sb_threes

/* sb_loop(n): 1 + ... + n by `loop`, 0 by way of `jrcxz`. */
	function sb_loop
	movq	%rdi, %rcx
	xorl	%eax, %eax
	jrcxz	.Lnone
.Lagain:
	addq	%rcx, %rax
	loop	.Lagain
.Lnone:	ret
	end sb_loop

/* sb_loopne(n): counts down from n until a multiple of four, at most n steps; jecxz too. */
	function sb_loopne
	movl	%edi, %ecx
	jecxz	.Lzero
.Luntil:
	movl	%ecx, %eax
	testb	$3, %al
	loopne	.Luntil
	movl	%ecx, %eax
	ret
.Lzero:	movl	$-1, %eax
	ret
	end sb_loopne

/* sb_overlap(n): n != 0 runs mov $0x90900704, %eax; n == 0 enters it one byte in: add $7, %al; nop; nop. */
	.globl	sb_overlap_inner
	function sb_overlap
	xorl	%eax, %eax
	testl	%edi, %edi
	jz	sb_overlap_inner
	.byte	0xb8
sb_overlap_inner:
	addb	$7, %al
	nop
	nop
	ret
	end sb_overlap

/* sb_lock(p, shared): libc's idiom, a jump over a lock prefix. Returns the old value. */
	function sb_lock
	movl	$1, %eax
	testl	%esi, %esi
	jz	.Lunlocked
	.byte	0xf0
.Lunlocked:
	xaddl	%eax, (%rdi)
	ret
	end sb_lock

/* sb_adc(to, a, b, words): to = a + b; the carry lives in CF round the loop. Returns it. */
	function sb_adc
	clc
.Lword:	movq	(%rsi), %rax
	adcq	(%rdx), %rax
	movq	%rax, (%rdi)
	leaq	8(%rsi), %rsi
	leaq	8(%rdx), %rdx
	leaq	8(%rdi), %rdi
	decq	%rcx
	jnz	.Lword
	setc	%al
	movzbl	%al, %eax
	ret
	end sb_adc

/* sb_flags(n): CF, ZF, SF, OF and PF of a comparison with 5 live across jumps and a call; as bits of the result. */
	function sb_flags
	cmpl	$5, %edi
	jmp	.Lflags1
	int3
.Lflags1:
	movl	$0, %eax
	movl	$0, %edx
	call	sb_quiet
	jmp	.Lflags2
	int3
.Lflags2:
	setc	%al
	setz	%dl
	leal	(%rax,%rdx,2), %eax
	movl	$0, %edx
	sets	%dl
	leal	(%rax,%rdx,4), %eax
	movl	$0, %edx
	seto	%dl
	leal	(%rax,%rdx,8), %eax
	movl	$0, %edx
	jnp	.Lflags3
	leal	16(%rax), %eax
.Lflags3:
	ret
	end sb_flags

	function sb_quiet
	jrcxz	.Lquiet
	leaq	(%rcx,%rcx), %rcx
.Lquiet:
	ret
	end sb_quiet

/* Functions that touch, of one, two and three bytes. */
	function sb_tiny1
	ret
	end sb_tiny1
	function sb_tiny2
	nop
	ret
	end sb_tiny2
	function sb_tiny3
	xchgl	%eax, %edx
	cltd
	ret
	end sb_tiny3

/* sb_entry_loop(n): the entry is a two-byte block and the head of a loop. Returns n + 1 turns as eax, given in esi. */
	function sb_entry_loop
	incl	%esi
	decl	%edi
	jns	sb_entry_loop
	movl	%esi, %eax
	ret
	end sb_entry_loop

/* sb_table(n): a jump table into back-to-back two-byte blocks. */
	function sb_table
	xorl	%eax, %eax
	cmpl	$4, %edi
	ja	.Ltab4
	movl	%edi, %edi
	leaq	.Ltable(%rip), %rdx
	movslq	(%rdx,%rdi,4), %rcx
	addq	%rdx, %rcx
	jmp	*%rcx
.Ltab0:	incl	%eax
.Ltab1:	addl	%eax, %eax
.Ltab2:	incl	%eax
.Ltab3:	incl	%eax
.Ltab4:	ret
	end sb_table
	.section .rodata
	.balign	4
.Ltable:
	.long	.Ltab0-.Ltable, .Ltab1-.Ltable, .Ltab2-.Ltable, .Ltab3-.Ltable, .Ltab4-.Ltable
	.text

/* sb_sum(n): 1 + ... + n recursively; a block that is a call and nothing else. */
	function sb_sum
	testq	%rdi, %rdi
	jz	.Lbottom
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	decq	%rdi
	jmp	.Lcall
	int3
.Lcall:	call	sb_sum
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	addq	%rdx, %rax
	ret
.Lbottom:
	xorl	%eax, %eax
	ret
	end sb_sum

/* sb_string(to, from, n): copies by rep movsb, a two-byte block that is the target of a jump; returns rcx left. */
	function sb_string
	movq	%rdx, %rcx
	jmp	.Lrep
	nop
.Lrep:	rep movsb
	movq	%rcx, %rax
	ret
	end sb_string
	.section .note.GNU-stack,"",@progbits
