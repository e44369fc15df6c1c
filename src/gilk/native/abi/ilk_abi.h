/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * /dev/ilk: what client, generated code and driver agree on. Protocol 7.
 *
 * MESSAGES. Every ioctl is one message: a buffer that begins with struct
 * ilk_head, whose `size` is the length of the whole buffer. The answer is
 * written into the same buffer. There is no pointer in any message, so a relay
 * can carry it. Fields marked [in] are the client's, [out] the driver's;
 * reserved fields are zero. The ioctl fails with
 *	EINVAL		a size, count or field that cannot be
 *	EPROTO		head.version is not ILK_PROTOCOL
 *	E2BIG		the message, or what it asks for, is above a limit of HELLO
 *	ENOSPC		the answer does not fit into the buffer
 *	ENOMEM, EBUSY, ENXIO	as usual; EINTR only before anything was done
 * and then has done nothing. The `status` of a single unit tells what happens
 * to that; the ioctl itself succeeds.
 *
 * CLIENTS. An open file is a client. It owns arenas, counters, rings and units;
 * nobody else can name them. When its last descriptor is closed, however that
 * comes about, all of its units are undone, and its memory is freed after the
 * grace periods. The module cannot be unloaded while a client is there.
 * Opening needs CAP_SYS_ADMIN and a kernel that is not locked down.
 *
 * ARENAS. Executable memory within 2 GiB of all kernel and module text. Never
 * writable: FILL writes it through the kernel's own text poking. It is filled
 * with int3 before. Fill a patch before a unit leads there; do not touch it
 * until UNDO has returned for all units that lead there.
 *
 * COUNTERS. Each is a u64 per possible CPU. The client asks for a number of
 * them, and is told blocks of consecutive ones: counter `first + i` of a block
 * is at %gs:(gs + 8 * i). While that fits a signed 32-bit displacement (blocks
 * with flag ILK_BLOCK_NEAR; there are few, at most fast_counters of HELLO)
 *	incq %gs:disp32
 * will do; otherwise
 *	movabs $offset, %reg; incq %gs:(%reg)
 * A single instruction is atomic against interrupts, NMIs and migration.
 *
 * RECORDS are those of gilk_abi.h, classes 0..3: 16, 32, 64, 256 bytes; bytes
 * 0..7 time (rdtsc), 8..11 iid, 12..15 `who`. In the kernel
 *	who = pid | (rsp >> 4 & 0x3ff) << 22
 * pid is current->pid: a task pointer is at %gs:current_gs, its pid at
 * pid_offset in it (HELLO). pid_max is at most 1 << 22. rsp is the stack
 * pointer at the point: with it, entry and return of a function pair up.
 *
 * RINGS. One per CPU and class, of 2^n chunks of `chunk` bytes, aligned to that.
 * %gs:(wpos_gs[class]) holds the *address* of the next record. It is a multiple
 * of `chunk` exactly when there is no room in the current chunk. To reserve:
 *	mov	%gs:wpos, %rax
 *   1:	test	$(chunk - 1), %eax
 *	jz	slow
 *	lea	size(%rax), %rcx
 *	cmpxchg	%rcx, %gs:wpos		without lock: one CPU's own word
 *	jne	1b			rax has the new value
 *   2:	...				rax: the record; all bytes but the iid may be written
 *	movl	$iid, 8(%rax)		last: commits
 *   slow:	mov	$(class + 4 * set), %eax
 *	call	ilk_reserve		rax: the record, or 0: there is no room, and
 *	test	%rax, %rax		that has been counted. Every other register is
 *	jnz	2b			kept; flags are not.
 * Addresses of two CPUs' rings differ, so the cmpxchg fails after a migration
 * in between. A record may be filled on any CPU, and be interrupted; the reader
 * takes records of a chunk up to the first whose iid is 0. An iid is never 0.
 * wpos 0 means that the ring is not there: ilk_reserve then gives 0.
 *
 * Chunks that are entered are numbered from 1. Where a ring is full, records
 * are lost until the reader has left a chunk; but with ILK_FLIGHT the oldest
 * chunk is given up, unless a record in it is still being filled.
 *
 * FILTER. A client may have records of some processes only, and of none for a
 * while; at first there are those of all. %gs:filter_gs is 0 when every record
 * is wanted, else the address of ILK_TGIDS bits, bit `tgid` of which says
 * whether those of that process are. It may become 0 at any time, and what it
 * pointed to stays readable. So, before a record is reserved:
 *	cmpq	$0, %gs:filter_gs
 *	jne	4f
 *   3:	...
 *   4:	mov	%gs:filter_gs, %rdx
 *	test	%rdx, %rdx
 *	jz	3b
 *	mov	%gs:current_gs, %rax
 *	mov	tgid_offset(%rax), %eax
 *	bt	%eax, (%rdx)
 *	jc	3b			else: no record
 * An interrupt is its task's: so, if that is all that is wanted. Bit 0, which no
 * process has whose records could be wanted, says that interrupts are wanted
 * whoever they interrupt (ILK_FILTER_INTERRUPTS). Code that is to heed it does not
 * look at bit 0 for the idle task, whose tgid is 0, but, instead of giving up:
 *	testb	$1, (%rdx)
 *	jz	no record
 *	testl	$ILK_IN_INTERRUPT, %gs:preempt_gs
 *	jnz	3b			else: no record
 * The ilk_log functions look for themselves.
 *
 * read() gives whole struct ilk_chunk, each followed by `bytes` bytes of
 * records; 0 bytes when there is nothing. Give it at least ILK_READ_MIN bytes.
 * poll() says POLLIN when some ring has `watermark` full chunks to read.
 *
 * MAPPED. Instead of calling read(), a client may map the rings, shared, each of
 * the areas that RECORDS tells from its start: `tails` as it likes, all others
 * to be read only. Ring r = cpu * ILK_CLASSES + class has
 *	a __u64 in `tails`: how far it has been read, in bytes since the start of
 *		chunk 1. The client's: the driver leaves alone, unless ILK_FLIGHT, what
 *		lies behind it. A wrong one costs the client its own records, no more.
 *	a struct ilk_ring_head in `heads`: how many chunks were entered
 *	and, in the same area from numbers[class] on, per CPU, a __u64 for each
 *		chunk that there is room for: the number of the one that lies there;
 *		0: none, or it is being given up
 *	its chunks in `records[class]`, those of all CPUs one after another.
 * To read: unless all that was entered was read, look where the chunk lies that
 * is next; take its records as far as they are committed; then see whether its
 * number is still there, else forget them; store the new tail. A chunk that is
 * nowhere was given up: all of its records that were not read are overwritten,
 * and the oldest number that is there is next. Every left chunk is full.
 * Mappings are not inherited by fork(). One holds the client as an open file does.
 *
 * UNITS. A unit is one splice: bytes at one place.
 *	SINGLE	the window is one instruction, or a ret and the int3 behind it.
 *		new: e9 (jump) or e8 (call; only over a call) and rel32 to
 *		patch; the rest, up to `length`, 90 or cc.
 *	MULTI	as SINGLE, over several instructions. None but the last may be a
 *		call. Two grace periods pass before the jump is written; a trap
 *		leads to the patch meanwhile.
 *	SHORT	new: eb rel8 to the unit `pad`, an earlier one of this message or
 *		one that is active; patch is that of the pad. Flag SEVERAL when
 *		the window is several instructions.
 *	PAD	where a SHORT bounces off: e9 rel32 to patch. Over idle padding,
 *		all of it 90, cc or one multi-byte nop, behind a jump or return
 *		and whatever more padding follows that; or over bytes that a
 *		SINGLE or MULTI of the same client has freed (its bytes 5..).
 *		For the latter `old` is what the host's `new` has there.
 *	TRAP	new: cc. The rest of the one instruction stays.
 *	FENTRY	address is that of a function's fentry nop. Through ftrace:
 *		patch is *called*, returns by ret, and keeps every register.
 *		old and new are not looked at; length is 5.
 * `old` is what must be there, `length` bytes; `copy` is where a CPU goes that
 * meets the window while it is put back: the displaced instructions, relocated,
 * and a jump behind the window. Only TRAP and FENTRY, PAD, and a SINGLE whose
 * old is e8 or e9 may leave it 0. Windows of different units never overlap,
 * whoever they belong to. The order of units in a message does not matter,
 * except that a pad comes before its users; ascending addresses are fastest.
 *
 * The driver checks every unit by itself and says why not: ILK_STALE ... below.
 * Units with another status than ILK_OK were not touched.
 *
 * UNDO names units by id, or all of the client by count 0. When it returns, the
 * bytes are back and no CPU or task is in the patches of units with ILK_OK.
 * ILK_BUSY: something else sits on our bytes; the unit stays. A kprobe that is
 * registered there does, in force or not: it has our jump for its instruction.
 * ILK_IN_USE: a pad or host whose user is not undone with it.
 *
 * A module that is unloaded takes the units in it along: UNDO of such a unit
 * gives ILK_GONE.
 */
#ifndef ILK_ABI_H
#define ILK_ABI_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdint.h>
typedef uint8_t __u8;
typedef uint16_t __u16;
typedef uint32_t __u32;
typedef uint64_t __u64;
typedef int32_t __s32;
typedef int64_t __s64;
#endif

#define ILK_PROTOCOL 9
#define ILK_DEVICE "/dev/ilk"

/* As _IOWR(0xe1, n, __u64) would be. */
#define ILK_REQUEST(n) (0xc008e100u | (n))
#define ILK_HELLO ILK_REQUEST(1)
#define ILK_SYMBOLS ILK_REQUEST(2)
#define ILK_ARENA ILK_REQUEST(3)
#define ILK_FILL ILK_REQUEST(4)
#define ILK_COUNTERS ILK_REQUEST(5)
#define ILK_READ ILK_REQUEST(6)
#define ILK_RECORDS ILK_REQUEST(7)
#define ILK_APPLY ILK_REQUEST(8)
#define ILK_UNDO ILK_REQUEST(9)
#define ILK_STATUS ILK_REQUEST(10)
#define ILK_FILTER ILK_REQUEST(11)
#define ILK_HOLD ILK_REQUEST(27) /* 12 to 26, 28 and 29: ilk_d_abi.h */
#define ILK_SHARE ILK_REQUEST(32)

struct ilk_head {
	__u32 size;    /* [in] of the whole message, bytes */
	__u32 version; /* [in] ILK_PROTOCOL */
};

struct ilk_hello {
	struct ilk_head head;
	__u32 protocol;	     /* [out] all below */
	__u32 cpus;	     /* possible ones: counters and rings are that many times there */
	__u64 message_max;   /* bytes */
	__u64 arena_max;     /* bytes, all arenas of one client */
	__u32 counters_max;  /* of one client */
	__u32 fast_counters; /* how many are free within reach of a displacement, now */
	__u32 units_max;     /* of one client */
	__u32 chunk;	     /* of a ring, bytes */
	__s64 current_gs;    /* %gs:current_gs: the task pointer */
	__u32 pid_offset;    /* of pid (u32) in a task */
	__u32 tsc_khz;
	__u32 tgid_offset;   /* of tgid (u32) in a task */
	__s32 preempt_gs;    /* %gs:preempt_gs: in which kinds of interrupts a processor is (u32) */
	__u64 text_start;    /* core text, [start, end) */
	__u64 text_end;
	char release[64];
};

/* Entry points of the driver for generated code:
 *	ilk_reserve	see RINGS
 *	ilk_registers	runs a C instrument that takes struct gilk_regs. Above the
 *			return address lie pc, shift, function, iid (u64 each):
 *			regs.rip = pc, regs.rsp = address behind iid + shift,
 *			function(regs, iid) is called. Every register and the
 *			flags are kept. Not entered again in its own context
 *			(task, softirq, interrupt, NMI) on a CPU: counted as missed.
 *	ilk_fire	fires a site of D programs: ilk_d_abi.h, SITES
 *	ilk_onward	no function: the notes of timed calls that go on in another
 *			function (gilk_onward.h); code may look at `open`
 *	ilk_onward_jumps, ilk_onward_begins, ilk_onward_returns
 *			C functions for ilk_registers; iid: the set of RECORDS << 24,
 *			plus the number of the function's probe at its entry
 * and for C instruments, `set` being that of RECORDS:
 *	void ilk_log_pair(u32 set, u32 iid, u64 value, u64 extra)
 *	void ilk_log_string(u32 set, u32 iid, const char *text)	any address is safe
 *	void ilk_log_registers(u32 set, u32 iid, const struct gilk_regs *regs)
 */
struct ilk_symbol {
	char name[24];
	__u64 address;
};

struct ilk_symbols {
	struct ilk_head head;
	__u32 count; /* [out] */
	__u32 reserved;
	struct ilk_symbol symbol[]; /* [out] as many as there are: room for 32 is enough */
};

/* The module that has the address in its code stays until the client has gone, and all of its units with it. */
struct ilk_hold {
	struct ilk_head head;
	__u64 address; /* [in] EINVAL: in no module that is there to stay, or the driver's own */
};

#define ILK_HELD_MAX 16 /* by one client; ENOSPC */

/*
 * Memory that code of a held module and processes have in common. It is the driver's: fresh, zero, and sealed, so that
 * nobody can change its size. Whoever has the descriptor may map it, and may write anything there at any time; all who
 * read it take that as data. The kernel's mapping lasts until the last unit of the client is out; what processes have
 * mapped lasts as long as they have it. Its first word says what is on: when the client goes, the driver stores 0 there
 * before it undoes anything. One for each client (EBUSY). The descriptor is one of the process that asks, close-on-exec.
 */
struct ilk_share {
	struct ilk_head head;
	__u64 bytes;   /* [in] rounded up to pages; E2BIG beyond ILK_SHARE_MAX */
	__u64 address; /* [out] in the kernel */
	__s32 descriptor; /* [out] */
	__u32 reserved;
};

#define ILK_SHARE_MAX (1ull << 29)

struct ilk_arena {
	struct ilk_head head;
	__u64 bytes;   /* [in] rounded up to pages; [out] what there is */
	__u64 address; /* [out] */
};

struct ilk_fill {
	struct ilk_head head;
	__u64 address; /* [in] in an arena of the client */
	__u64 bytes;   /* [in] how many follow */
	__u8 content[];
};

#define ILK_BLOCK_NEAR 1 /* every offset in it is a signed 32-bit number */

struct ilk_block {
	__s64 gs;    /* of counter `first` */
	__u32 first; /* the client's counters are numbered from 0, on and on */
	__u32 count;
	__u32 flags;
	__u32 reserved;
};

/* Near ones are given out first. At most count / 4096 + 4 blocks come back. */
struct ilk_counters {
	struct ilk_head head;
	__u32 count;  /* [in] how many more */
	__u32 blocks; /* [out] */
	struct ilk_block block[];
};

#define ILK_ALL_CPUS 0xffffffffu

struct ilk_read {
	struct ilk_head head;
	__u32 first; /* [in] */
	__u32 count; /* [in] */
	__u32 cpu;   /* [in] ILK_ALL_CPUS: the sum */
	__u32 reserved;
	__u64 value[]; /* [out] */
};

#define ILK_CLASSES 4
#define ILK_SETS 4 /* clients that can have rings at one time; EBUSY when there are more */

#define ILK_FLIGHT 1 /* the newest records are kept, not the oldest */

/* To be mapped from `offset` on. */
struct ilk_area {
	__u64 offset;
	__u64 bytes;
};

struct ilk_ring_head {
	__u64 entered; /* chunks so far; the writer is in the last of them, or at its end */
	__u64 lost;    /* records that found no room */
};

struct ilk_records {
	struct ilk_head head;
	__u32 order[ILK_CLASSES]; /* [in] log2 of the bytes of a ring, each CPU; 0: no ring */
	__u32 flags;		  /* [in] ILK_FLIGHT */
	__u32 watermark;	  /* [in] chunks, fewer than any ring has; 0: 1 */
	__u32 set;		  /* [out] all below */
	__u32 chunk;		  /* bytes */
	__s64 wpos_gs[ILK_CLASSES]; /* signed 32-bit */
	__s64 filter_gs;	    /* signed 32-bit; see FILTER */
	struct ilk_area tails;
	struct ilk_area heads;
	struct ilk_area records[ILK_CLASSES];
	__u64 numbers[ILK_CLASSES]; /* in `heads`, bytes from its start */
};

#define ILK_TGIDS (1u << 22) /* every tgid is below */

#define ILK_FILTER_ON 1	   /* records are made */
#define ILK_FILTER_ONLY 2  /* of processes in the set alone */
#define ILK_FILTER_CLEAR 4 /* the set is emptied before anything is added */
#define ILK_FILTER_INTERRUPTS 8 /* with ONLY: also those made in any interrupt */

#define ILK_IN_INTERRUPT 0x00ff0100u /* of preempt_gs: NMI, hard interrupt, softirq being served */

/* ENXIO: the client has no rings. An unknown flag, or a tgid that cannot be, 0 too, changes nothing. */
struct ilk_filter {
	struct ilk_head head;
	__u32 flags;   /* [in] */
	__u32 add;     /* [in] how many of the tgids that follow join the set */
	__u32 remove;  /* [in] how many, behind those, leave it */
	__u32 members; /* [out] how many it has now */
	__u32 tgid[];
};

#define ILK_READ_MIN 65536

struct ilk_chunk {
	__u32 cpu;
	__u32 class_;
	__u32 bytes; /* of records, which follow */
	__u32 reserved;
	__u64 lost;  /* of this ring so far, found no room or were overwritten */
};

#define ILK_SINGLE 1
#define ILK_MULTI 2
#define ILK_SHORT 3
#define ILK_TRAP 4
#define ILK_FENTRY 5
#define ILK_PAD 6

#define ILK_SEVERAL 1 /* SHORT: the window is several instructions */

#define ILK_WINDOW 24

struct ilk_unit {
	__u64 address;
	__u64 patch;
	__u64 copy;
	__u32 id;     /* [in] the client's, not 0, not in use */
	__u8 kind;
	__u8 length;  /* of the window, bytes */
	__u8 flags;
	__u8 zero;
	__u32 pad;    /* [in] SHORT: id of its pad */
	__u32 status; /* [out] */
	__u64 detail; /* [out] the address, or the error number, that is to blame; or 0 */
	__u8 old[ILK_WINDOW];
	__u8 new[ILK_WINDOW];
};

#define ILK_OK 0
#define ILK_STALE 1	    /* other bytes are there than expected */
#define ILK_BLACKLIST 2	    /* noinstr, entry code, NOKPROBE; int3 where int3 needs it */
#define ILK_STATIC_KEY 3    /* a static key's jump or nop is in the window */
#define ILK_STATIC_CALL 4
#define ILK_FTRACE 5	    /* an fentry site: use FENTRY */
#define ILK_EXCEPTION 6	    /* an instruction with an exception table entry, or its fixup */
#define ILK_ALTERNATIVE 7   /* a lock prefix that CPU hotplug rewrites */
#define ILK_BUG 8	    /* the ud2 of a BUG or WARN */
#define ILK_KPROBE 9	    /* a kprobe is there */
#define ILK_OUTSIDE 10	    /* not kernel or module text */
#define ILK_INIT 11	    /* init text */
#define ILK_MODULE 12	    /* of a module that is coming or going, or of the driver itself */
#define ILK_OVERLAP 13	    /* with another unit; detail: its address */
#define ILK_DUPLICATE 14    /* this id is in use */
#define ILK_DECODE 15	    /* not whole instructions, or one that cannot be displaced */
#define ILK_BAD_UNIT 16	    /* kind, length, flags or reserved fields */
#define ILK_BAD_BYTES 17    /* new is not what the kind asks for */
#define ILK_BAD_PATCH 18    /* patch or copy is in no arena of the client */
#define ILK_BAD_PAD 19	    /* no such pad, or not idle bytes */
#define ILK_NO_FENTRY 20    /* no ftrace site there; or ftrace refused: detail */
#define ILK_BUSY 21	    /* something else sits on our bytes */
#define ILK_IN_USE 22	    /* a pad or host of a unit that stays */
#define ILK_UNKNOWN 23	    /* UNDO: no such id */
#define ILK_GONE 24	    /* UNDO: its module was unloaded */
#define ILK_NO_MEMORY 25
#define ILK_LIMIT 26	    /* units_max */
#define ILK_LEADER 27	    /* something leads into the window: a jump from wherever, the fixup
			     * of an exception, a static key; or to a pad. detail: where */
#define ILK_RUN_INTO 28	    /* PAD: what is before it may run into it, as it ends neither in a
			     * jump nor in a return. detail: where */
#define ILK_UNREAD 29	    /* the function cannot be read so far that it is known what leads to
			     * the window: a kprobe, bytes that are no instruction. detail: where */
#define ILK_STATUSES 30

struct ilk_apply {
	struct ilk_head head;
	__u32 count;   /* [in] */
	__u32 applied; /* [out] how many have ILK_OK */
	struct ilk_unit unit[];
};

struct ilk_result {
	__u32 id; /* [in] */
	__u32 status;
};

struct ilk_undo {
	struct ilk_head head;
	__u32 count;  /* [in] 0: all */
	__u32 undone; /* [out] */
	struct ilk_result result[];
};

struct ilk_status {
	struct ilk_head head;
	__u32 clients; /* [out] all below; of all clients where not said otherwise */
	__u32 fast_counters; /* free */
	__u64 units;
	__u64 own_units;
	__u64 arena_bytes;
	__u64 counters;
	__u64 ring_bytes;
	__u64 traps;  /* hits that came by int3, since load */
	__u64 missed; /* runs of C instruments skipped because one was running */
	__u64 lost[ILK_CLASSES]; /* records of this client: found no room, or overwritten as read() saw */
	__u64 batches; /* APPLY and UNDO that changed anything, since load */
	__u64 orphans; /* units of clients that are gone, still busy */
	__u64 tsc;     /* rdtsc, and CLOCK_MONOTONIC in ns, of one moment */
	__u64 monotonic;
};

#endif
