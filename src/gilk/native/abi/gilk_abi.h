/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The memory that client and target share: one memory object, mapped by both.
 *
 *   control        page 0, written by the client, read by the runtime; in it,
 *                  from GILK_GATES_AT, gate[GILK_GATES]
 *   block[n]       one per thread, `stride` bytes each, from offset `first`:
 *       head       page 0 of the block: struct gilk_block
 *       counters   u64[counters], one per counting probe
 *       rings      one per record class in use
 *
 * While it runs instrumented code, a thread's GS base points at its block. A
 * block belongs to the thread whose `fs base + key` equals `owner`; key lies
 * in a private page that the kernel zeroes in a forked child, so a child never
 * writes to its parent's block: it finds a stranger's and takes a new one.
 *
 * Rings. Positions are bytes, they only grow, and are taken modulo the ring's
 * size (a power of two). The thread reserves by an unlocked cmpxchg on `wpos`
 * (atomic against its own signal handlers, which is all that is needed with
 * one producer), fills the record, and commits by storing a nonzero iid last.
 * The reader takes records up to the first one whose iid is still zero, zeroes
 * the iids it took, and then advances `limit`. wpos + size > limit means full:
 * the record is dropped and `drops` counts it.
 *
 * Ownership: the client creates and frees the memory; blocks are claimed by
 * the runtime (state 0 -> 1 by locked cmpxchg) and freed by the client once
 * the thread is gone and its rings are empty.
 */
#ifndef GILK_ABI_H
#define GILK_ABI_H

#include "gilk_regs.h"

#define GILK_MAGIC 0x314b4c49474bUL
#define GILK_ABI_VERSION 1
#define GILK_PAGE 4096
#define GILK_CLASSES 4 /* record classes: 16, 32, 64 and 256 bytes */

/* Every record begins with this, in the kernel too. */
struct gilk_record {
	gilk_u64 tsc;
	gilk_u32 iid; /* 0: not committed */
	union {
		gilk_u32 sp; /* in a process: the low half of the stack pointer */
		gilk_u32 who; /* in the kernel: whose, and bits of the stack pointer (ilk_abi.h, RECORDS) */
	};
};

struct gilk_record_stamp { /* class 0, 16 bytes */
	struct gilk_record head;
};

struct gilk_record_integer { /* class 1, 32 bytes */
	struct gilk_record head;
	gilk_u64 value;
	gilk_u64 extra;
};

struct gilk_record_args { /* class 2, 64 bytes */
	struct gilk_record head;
	gilk_u64 arg[6]; /* rdi rsi rdx rcx r8 r9 */
};

struct gilk_record_regs { /* class 3, 256 bytes */
	struct gilk_record head;
	gilk_u32 length; /* of text, in bytes; 0 when regs are held */
	gilk_u32 reserved;
	union {
		gilk_u64 reg[18]; /* rax rcx rdx rbx rsp rbp rsi rdi r8..r15 rip rflags */
		gilk_u8 text[232];
	} u;
};

struct gilk_ring_class {
	gilk_u32 offset; /* of the ring in its block, bytes; 0: class not in use */
	gilk_u32 size;	 /* bytes, a power of two */
};

struct gilk_control {
	gilk_u64 magic;
	gilk_u32 version;
	gilk_u32 blocks;   /* how many */
	gilk_u64 first;	   /* offset of block 0 */
	gilk_u64 stride;   /* bytes from block to block */
	gilk_u32 counters; /* room per block */
	gilk_u32 exhausted; /* set when no block was free; the client clears it when it frees some */
	struct gilk_ring_class ring[GILK_CLASSES];
	gilk_u64 lost;	  /* hits that found no free block; atomic */
	gilk_u64 next;	  /* highest block ever claimed, plus one; atomic */
	gilk_u64 noted;	  /* contexts with a note that have not been resumed yet; atomic */
	gilk_u64 generation; /* incremented when the memory of a client is added or removed */
	gilk_u64 claiming; /* threads that may be looking at memory of clients; atomic */
	gilk_u32 self;	  /* in a client's memory: its number among the parts; 0: blocks are claimed here */
	gilk_u32 alone;	   /* not 0: no client frees blocks any more; when blocks were last looked through (claim.c) */
};

/*
 * Parts. Several clients may have memory in one process, each laid out as
 * above; GS leads to a block of the first. In its control page, part[n] is where
 * the control page of client n lies, or 0; in a block, by how much the
 * thread's block in that memory lies behind this one, and part[0] is 0. A
 * thread whose block has an owner has all its parts. When a client comes or
 * goes, part[n] of the control page is set, `generation` raised, and then the
 * owner of all blocks cleared: threads look at the parts again before they next
 * write. A thread that finds no block free has the one behind the last:
 * what it would record there is dropped.
 */
#define GILK_PARTS_AT 2048
#define GILK_PARTS 128
#define GILK_IID_BITS 24 /* of the number that `regs` and a gate are given; above lies the client's number */

/*
 * Gates. The client sets all but state, and then state to ARMED. Hits take
 * `left` down; the one that makes it 0 fills in who and when, and sets state to
 * REACHED, for which the client waits (futex). While `rounds`,
 * of 10 ms each, are left, that thread waits too, until the client sets state to anything else,
 * or another thread has reached the gate after it. While `frame` is not 0 the thread may be waiting:
 * who changes code need not wait for it to come back, unless it is in a patch that goes.
 */
#define GILK_GATES_AT 1024
#define GILK_GATES 8

enum gilk_gate_state { GILK_GATE_CLOSED, GILK_GATE_ARMED, GILK_GATE_REACHED };

struct gilk_gate {
	gilk_u32 state; /* enum gilk_gate_state; a futex */
	gilk_u32 left;	/* hits until it is reached */
	gilk_u32 rounds; /* for which the thread is held */
	gilk_u32 pid;
	gilk_u32 tid;
	gilk_u32 reserved;
	gilk_u64 tsc;
	gilk_u64 frame; /* the waiting thread's struct gilk_regs, 18 words below its return address into the patch */
	gilk_u64 unused;
};

struct gilk_ring {
	gilk_u64 wpos;	/* producer */
	gilk_u64 limit; /* reader: bytes consumed + size */
	gilk_u64 drops; /* producer: records that found no room */
	gilk_u64 reserved;
};

/*
 * Advice on calls (runtime/advice.h). It runs on a stack of its own, of GILK_ADVICE_STACK bytes, of which the lowest
 * page is a guard. All zero: the thread has none yet.
 */
#define GILK_ADVICE_STACK (1 << 20)
#define GILK_ADVICE_OWN (1 << 16) /* bytes at its end that advice does not begin in */
#define GILK_ADVICE_WORDS 64 /* of these, at the very end, apart from calls at copies (include/gilk_copies.h) */
#define GILK_COPY_COUNT 16 /* from where the word with their number is to the end */

struct gilk_advising {
	gilk_u64 shown;	  /* stack pointer at the newest activation's entry; all ones: none; 0: look closer at returns */
	gilk_u64 next;	  /* where the next activation begins, downwards */
	gilk_u64 newest;  /* activation, or 0 */
	gilk_u64 running; /* the activation whose advice runs; 1: the thread switches stacks; 0: none */
	gilk_u64 left;	  /* the program's stack pointer, while `running` is not 0 */
	gilk_u64 high;	  /* where the stack ends */
	gilk_u64 skipped; /* calls that went without advice, as there was no room */
	gilk_u64 dropped; /* activations whose call was left by a jump, not by a return */
};

struct gilk_block {
	gilk_u64 owner; /* fs base + key; 0: no one's */
	gilk_u32 state; /* 0 free, 1 in use, 2 about to change hands, when no client is there */
	gilk_u32 index;
	gilk_u32 pid; /* the client's number for its own process; for others, their own number */
	gilk_u32 tid; /* gettid(2): in a PID namespace, the thread's own number there */
	gilk_u64 birth; /* tsc when the thread first used it; 0: it has not yet */
	gilk_u64 busy;	/* nonzero while an instrument that calls out runs */
	gilk_u64 nested; /* hits skipped because of busy */
	gilk_u64 inside; /* how many instruments of those that announce themselves are running */
	gilk_u64 side_top; /* the top of this thread's side stack; 0: it has none */
	struct gilk_ring ring[GILK_CLASSES]; /* at 64 */
	gilk_u64 side_rsp; /* at 192: the program's stack pointer while the side stack is in use; 0: it is free */
	struct gilk_advising advising; /* at 200 */
	gilk_u64 holder; /* at 264: owner, also while that is cleared */
};

/*
 * Side stacks, for programs whose own stacks may have no room for what C needs
 * (Go). Memory of the process's own: first GILK_CLAIM_STACKS small ones, for
 * threads that are yet to claim a block, each held by a word of the key page,
 * then one for each block, of which the lowest page is a guard.
 */
#define GILK_SIDE_TOP 56
#define GILK_SIDE_RSP 192
#define GILK_CLAIM_STACKS 16
#define GILK_CLAIM_STACK 4096
#define GILK_SIDE_STACK 65536

/*
 * Signals whose handlers see where they have interrupted the thread. They see
 * the original address; when they return, the thread goes on in the patch that
 * it was in. Where that is, is noted in the context itself, in words that
 * neither the kernel nor C libraries use (reserved1 of struct sigcontext,
 * arch/x86/include/uapi/asm/sigcontext.h): so a program may have any number of
 * contexts that wait in handlers, and go on with them in any thread.
 */
#define GILK_NOTE 232 /* offset of the note in the ucontext */
#define GILK_NOTE_MAGIC 0x9d1c5a3b6b6c6967UL

struct gilk_note {
	gilk_u64 magic;	 /* GILK_NOTE_MAGIC; anything else: no note */
	gilk_u64 actual; /* where the thread was */
	gilk_u64 shown;	 /* what the handler sees */
	gilk_u64 rsp;	 /* the stack pointer that the handler sees */
	gilk_u64 frame;	 /* how the state at `shown` differs from that at `actual`: GILK_FRAME_... */
};

/*
 * A handler that has interrupted a patch sees the registers that the original code would have. The program's values lie
 * in the frame of the patch, in words one behind the other, in the order of the registers' numbers, and those of the
 * flags behind them as lahf and seto left them. While the handler runs, these words hold what the patch had in the
 * registers.
 */
#define GILK_FRAME_REGISTERS 0xffffUL /* the registers that were exchanged, one bit each */
#define GILK_FRAME_FLAGS (1UL << 16)  /* the flags were exchanged, too */
#define GILK_FRAME_UNDER_WAY (1UL << 17) /* the exchange is under way, whatever `rsp` is */
#define GILK_FRAME_DEPTH 20 /* from this bit on, 12 bits: words from the stack pointer in the patch to `rsp` */
#define GILK_FRAME_WORDS 32 /* from this bit on, 12 bits: words from the stack pointer in the patch to the first word */
#define GILK_FRAME_FIELD 0xfffUL

/*
 * Places: what the addresses of patches stand for, and where displaced
 * instructions have gone. Written by the client next to the patches: it writes
 * into two tables in turn, and has gilk_params point at the one that is whole.
 * A thread that was preempted while it looked something up may find its table
 * rewritten; `version` is 0 meanwhile and another number afterwards. Rows
 * ascend by `from`.
 */
#define GILK_ROW_AFTER (1UL << 63)
#define GILK_ROW_APART 1UL /* from here on a patch whose places have no equals in the original code */

struct gilk_row {
	gilk_u64 from;
	gilk_u64 to; /* 0: from here on no patch; GILK_ROW_AFTER: instruments there have run; GILK_ROW_APART */
};

/* Whether the row is that of an address at which all registers are those of the original code at `to`. */
static inline int gilk_is_place(struct gilk_row row, gilk_u64 address)
{
	return row.to && row.to != GILK_ROW_APART && row.from == address;
}

struct gilk_places {
	gilk_u64 patches;   /* rows patch -> original, right behind this */
	gilk_u64 displaced; /* rows original -> patch, behind those */
	gilk_u64 version;   /* 0: not whole */
};

#endif
