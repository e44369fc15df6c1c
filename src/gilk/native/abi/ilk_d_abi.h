/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * D programs in the driver: the messages beside those of ilk_abi.h, whose rules they follow.
 *
 * PROGRAM. A client has at most one. Its clauses come as checked code (ilk_d_forms.h), which the driver proves safe
 * before it runs any of it: the answer has a `verdict` (enum ilk_d_verdict, ilk/d/check.h), and with ILK_D_SOUND alone
 * there is a program. Its memory is laid out as gilk_d.h has it, by a layout that the driver looks at. It is the
 * driver's: the client reads copies of it. It begins INACTIVE.
 *	groups	lists of clauses that run one after another. entry[] is where each begins in the code.
 *	frame	what the code works in, ILK_D_HEAD bytes of which tell of the event. Nothing else of it is set.
 *	rows	aggregations, which code names by their place here
 *	names	offsets in `constants` of zero-ended texts: four for each probe, from number 0 on
 *
 * SITES. Numbers for probes' places. A patch that has pushed pc, 0, 0 and the number of its site, and where the stack
 * pointer was (ilk_abi.h, struct gilk_call), calls ilk_fire, which keeps every register and the flags.
 *
 * ATTACH. When the site is come by, a group of the client's program runs. A site may have several; they run in the
 * order in which they were attached. The arguments of the event:
 *	ENTRY	the six of a function, and four behind its return address
 *	RETURN	arg0 how far the site is behind `start`, arg1 the result
 *	CALL	at x64_sys_call(): the system call's own; of `choice` the one whose value is its number runs, or none
 *	CALLED	at syscall_exit_to_user_mode_prepare(): its result twice, and errno
 *
 * CALLS. Where a function ends in a jump to another one, its call goes on there, and ends at a return of that one, which is
 * known by the stack pointer. So that a group can run at that return, an attachment has a role:
 *	FIRES	the group runs
 *	RETURNS	the group runs; a call of its function that was noted at this stack pointer is over
 *	LEAVES	at a jump: the call is noted, with the group and the probe
 *	ENDS	at a return, or where it is lost from sight: the groups of noted calls run, the innermost first. arg0 is how
 *		far the jump is behind the beginning of its function, arg1 the result
 * and in processes, where a call may be left without a return:
 *	ENTERS	at an entry: what was noted belongs to a call that was left, unless a jump has led here
 *	PASSES	at a jump between other functions: it leads to an entry
 *	STAYS	where a conditional jump was not taken: it does not
 *
 * Sites are of whoever asked for them, and any number of programs attach to one. FORCE says of a client's own that their
 * splices are in force; from then on FIND tells others of them. While a program of another client is attached, UNDO of all
 * units does nothing, and a client that is closed stays, for the sake of its units alone.
 *
 * ORIGINALS tells what units, of all clients, have overwritten: those that lie in others come first. So text can be seen as
 * it was.
 *
 * CLOCK. A group runs each `period` ns: on every CPU (ILK_D_EVERY_CPU), or on one. arg0 is the kernel's pc that was
 * interrupted, or 0, arg1 the user's, or 0.
 *
 * POINT. A group runs where a tracepoint is come by: of the kernel, or of a module, which then cannot be unloaded. Its
 * arguments are the tracepoint's own: the first five as registers have them, others as the stack has them.
 *
 * PERF. A group runs on a CPU, or on every one (ILK_D_EVERY_CPU), each time that it has counted `period` events, whose
 * type and number are those of perf_event_open(2): events of the processor, of the kernel, and those of tracefs. Arguments
 * are those of CLOCK; with ILK_D_FIELDS, which events of tracefs take, arg0 is the address of the event's record. With
 * ILK_D_TRY nothing runs, and no program is needed: the answer tells whether the first CPU counts such events. ENOENT,
 * EOPNOTSUPP: it does not.
 *
 * UPROBE. A group runs where a process comes by an instruction of a file: one of `process`, or any where there are none.
 * The client has the file open, executable for itself; `bytes` are what it has seen there, by which a file that is another
 * one now is told. Arguments are those of ATTACH for ENTRY and RETURN; with ILK_D_EDGE the return address is all that the
 * function has on its stack there. ESTALE: other bytes. EOPNOTSUPP, ENOEXEC: the kernel refuses that instruction. EIO: it
 * keeps no pages of such a file. ESRCH: no process of those is there.
 *
 * FIRE. A group runs now, as the task that asks; with ILK_D_ALWAYS also while the program is INACTIVE.
 *
 * READ copies ranges of the memory, one behind the other. LINES copies what is not zero in one range, in lines of
 * ILK_D_LINE bytes from a multiple of that on, as many as there is room for; `next` is where to go on, and the end of
 * the range when all was looked at. PUT changes words, all of which must be words that are the consumer's in gilk_d.h.
 *
 * SETTLE has the records of speculations that were committed follow the others, unless the clause that committed them
 * did that: it does where they are at most ILK_D_AT_ONCE bytes, and nobody is writing any. Until then such a speculation is
 * busy.
 *
 * REAP frees the thread-local variables of tasks that have ended.
 *
 * MAPPED. The words by which code in user space is told, of ustack() and usym(), are a process, and above that, in the
 * upper half, one of its images: what it has mapped since it executed a program. The driver tells once of each image
 * that a clause has told of, and of what it has mapped since: the files of which code is mapped. Until then, at most until
 * the client is closed, the mappings stay, even if the process ends.
 *
 * A client has to say something, any message will do: a program whose client has said nothing for the seconds of the parameter
 * `deadman` becomes INACTIVE, and STATUS tells so, unless it was loaded with ILK_D_UNWATCHED.
 *
 * Closing the client, however that comes about, takes its sites, clocks, points, events, uprobes and its program away.
 */
#ifndef ILK_D_ABI_H
#define ILK_D_ABI_H

#include "gilk_d.h"
#include "ilk_abi.h"

#define ILK_D_PROGRAM ILK_REQUEST(12)
#define ILK_D_SITES ILK_REQUEST(13)
#define ILK_D_ATTACH ILK_REQUEST(14)
#define ILK_D_CLOCK ILK_REQUEST(15)
#define ILK_D_FIRE ILK_REQUEST(16)
#define ILK_D_READ ILK_REQUEST(17)
#define ILK_D_LINES ILK_REQUEST(18)
#define ILK_D_PUT ILK_REQUEST(19)
#define ILK_D_STATUS ILK_REQUEST(20)
#define ILK_D_REAP ILK_REQUEST(21)
#define ILK_D_FIND ILK_REQUEST(22)
#define ILK_D_FORCE ILK_REQUEST(23)
#define ILK_D_ORIGINALS ILK_REQUEST(24)
#define ILK_D_POINT ILK_REQUEST(25)
#define ILK_D_MAPPED ILK_REQUEST(26)
#define ILK_D_SETTLE ILK_REQUEST(28)
#define ILK_D_UPROBE ILK_REQUEST(29)
#define ILK_D_PERF ILK_REQUEST(30)

#define ILK_D_MEMORY_MAX (1ull << 30) /* bytes of a program */
#define ILK_D_FRAME_MAX 8192u
#define ILK_D_CODE_MAX (1u << 20)
#define ILK_D_TIME_MAX 1000000u /* instructions, that a group may be given */
#define ILK_D_CELLS_MAX 65536u
#define ILK_D_SPECULATIONS_MAX 256u
#define ILK_D_AT_ONCE 1024u /* bytes of a speculation that a clause itself commits */

/* At the start of a frame. */
struct ilk_d_event {
	__u64 arg[10];
	__s32 pid;
	__s32 tid;
	__s32 cpu;
	__u32 probe;
	__s32 error;
	__u32 level; /* 0 a task, 1 softirq, 2 hard interrupt, 3 NMI */
	__u64 reserved[3];
};

#define ILK_D_HEAD 128 /* bytes of it */

enum ilk_d_function {
	ILK_D_COUNT,
	ILK_D_SUM,
	ILK_D_MIN,
	ILK_D_MAX,
	ILK_D_AVG,
	ILK_D_STDDEV,
	ILK_D_QUANTIZE,
	ILK_D_LQUANTIZE,
	ILK_D_LLQUANTIZE,
	ILK_D_FUNCTIONS
};

/* An aggregation: its number in gilk_d.h is its place in the rows, and 1. */
struct ilk_d_aggregation {
	__u32 function; /* enum ilk_d_function */
	__u32 key_size; /* bytes */
	__u32 edge; /* LLQUANTIZE: its first in `edges`, and how many */
	__u32 edges;
	__s64 low; /* LQUANTIZE */
	__s64 high;
	__s64 step;
};

#define ILK_D_UNWATCHED 1u /* it runs on when its client says nothing any more */
#define ILK_D_DESTRUCTIVE 2u /* it may do what changes processes: signals */

struct ilk_d_program {
	struct ilk_head head;
	__u32 flags; /* [in] ILK_D_UNWATCHED, ILK_D_DESTRUCTIVE */
	__u32 frame; /* [in] bytes, a multiple of 8 */
	__u32 code; /* [in] bytes */
	__u32 groups; /* [in] */
	__u32 rows; /* [in] */
	__u32 edges; /* [in] */
	__u32 constants; /* [in] bytes */
	__u32 names; /* [in] how many offsets */
	__u32 clausetime; /* [in] */
	__u32 verdict; /* [out] */
	__u32 where; /* [out] the byte of code, or group, that is to blame */
	__u32 reserved;
	struct gd_layout layout; /* [in] */
	/* then: struct ilk_d_aggregation[rows], __u64[edges], __u32 entry[groups], __u32 name[names], constants, code */
};

struct ilk_d_sites {
	struct ilk_head head;
	__u32 count; /* [in] how many more */
	__u32 first; /* [out] */
};

#define ILK_D_ENTRY 0
#define ILK_D_RETURN 1
#define ILK_D_CALL_BEGINS 2
#define ILK_D_CALL_ENDS 3
#define ILK_D_KINDS 4

#define ILK_D_DEEP 1u /* arg6 to arg9 are wanted */

/* The purposes of an attachment (see above, CALLS). */
#define ILK_D_FIRES 0
#define ILK_D_RETURNS 1
#define ILK_D_LEAVES 2
#define ILK_D_ENDS 3
#define ILK_D_ENTERS 4
#define ILK_D_PASSES 5
#define ILK_D_STAYS 6
#define ILK_D_ROLES 7

#define ILK_D_SYSTEM_CALLS 512u /* numbers are below */

struct ilk_d_choice {
	__u32 value;
	__u32 group;
	__u32 probe;
};

struct ilk_d_attach {
	struct ilk_head head;
	__u32 site; /* [in] all of it */
	__u32 kind;
	__u32 group; /* of ENTRY and RETURN */
	__u32 probe;
	__u32 count; /* of choices: 0 of ENTRY and RETURN */
	__u32 flags; /* ILK_D_DEEP */
	__u32 role;
	__u32 reserved;
	__u64 start; /* of the function */
	__u64 address; /* of the point */
	struct ilk_d_choice choice[];
};

#define ILK_D_EVERY_CPU 1u
#define ILK_D_PERIOD_MIN 100000ull /* ns */

struct ilk_d_clock {
	struct ilk_head head;
	__u64 period; /* [in] ns; all of it */
	__u32 group;
	__u32 probe;
	__u32 flags;
	__u32 reserved;
};

#define ILK_D_NO_USER 2u /* beside ILK_D_EVERY_CPU: what happens in programs does not count */
#define ILK_D_NO_KERNEL 4u /* the same for the kernel */
#define ILK_D_FIELDS 8u
#define ILK_D_TRY 16u

struct ilk_d_perf {
	struct ilk_head head;
	__u32 type; /* [in] all of it */
	__u32 flags;
	__u64 config;
	__u64 period;
	__u32 group;
	__u32 probe;
};

#define ILK_D_POINT_NAME 64

struct ilk_d_point {
	struct ilk_head head;
	__u32 group; /* [in] all of it */
	__u32 probe;
	__u32 flags; /* ILK_D_DEEP: arguments from the sixth on are wanted; ILK_D_BIOS */
	__u32 reserved;
	char name[ILK_D_POINT_NAME]; /* zero-ended */
};

/* Once for each bio that ends with it, which is arg0: only of the tracepoint block_rq_complete. */
#define ILK_D_BIOS 4u
#define ILK_D_EDGE 2u /* beside ILK_D_DEEP */
#define ILK_D_INSTRUCTION 15u /* bytes, at the most */
#define ILK_D_UPROBES_MAX 4096u /* of a program */
#define ILK_D_UPROBE_PROCESSES 1024u /* of a message */

struct ilk_d_uprobe {
	struct ilk_head head;
	__s32 descriptor; /* [in] all of it: the file */
	__u32 kind; /* ENTRY or RETURN */
	__u32 group;
	__u32 probe;
	__u32 flags; /* ILK_D_DEEP, ILK_D_EDGE */
	__u32 count; /* of processes; 0: whoever maps the file */
	__u64 offset; /* in the file */
	__u64 start; /* of the function, the same */
	__u8 bytes[ILK_D_INSTRUCTION];
	__u8 length; /* of them that the instruction has */
	__u64 semaphore; /* a 16-bit counter in the file, raised while the uprobe is there; 0: none */
	__u32 role;
	__u32 reserved;
	__u32 process[]; /* as the client's process sees their numbers */
};

#define ILK_D_ALWAYS 1u

struct ilk_d_fire {
	struct ilk_head head;
	__u32 group; /* [in] all of it */
	__u32 probe;
	__u32 flags;
	__u32 reserved;
	__u64 arg[10];
};

struct ilk_d_range {
	__u64 offset;
	__u64 size;
};

struct ilk_d_read {
	struct ilk_head head;
	__u32 count; /* [in] */
	__u32 reserved;
	struct ilk_d_range range[]; /* [in]; then, [out], what lies there */
};

#define ILK_D_LINE 64u

struct ilk_d_line {
	__u64 offset;
	__u8 content[ILK_D_LINE];
};

struct ilk_d_lines {
	struct ilk_head head;
	__u64 offset; /* [in] */
	__u64 size; /* [in] */
	__u64 next; /* [out] */
	__u32 room; /* [in] how many lines there is room for */
	__u32 count; /* [out] */
	struct ilk_d_line line[];
};

struct ilk_d_word {
	__u64 offset;
	__u64 value;
	__u32 width; /* 4 or 8 bytes; the offset is a multiple of it */
	__u32 reserved;
};

struct ilk_d_put {
	struct ilk_head head;
	__u32 count; /* [in] */
	__u32 reserved;
	struct ilk_d_word word[]; /* [in] */
};

#define ILK_D_STOPPED 62u

struct ilk_d_status {
	struct ilk_head head;
	__u64 nested; /* [out] times that a group did not run, as another ran on that CPU at the same level */
	__u64 shallow; /* [out] the same, for want of stack */
	__u64 shared; /* [out] how often programs of others are attached to the client's sites */
	__u64 wall; /* [out] ns from 1970 to CLOCK_MONOTONIC's 0 */
	__u64 aborted; /* [out] 1: the client had said nothing for too long */
	__u32 stopped; /* [out] how many processes it has stopped; more than ILK_D_STOPPED: others, too */
	__u32 reserved;
	__u32 process[ILK_D_STOPPED]; /* [out] these */
};

struct ilk_d_find {
	struct ilk_head head;
	__u64 address; /* [in] of a point */
	__u32 kind; /* [in] */
	__u32 site; /* [out] one that is in force there; 0: none */
};

struct ilk_d_force {
	struct ilk_head head;
	__u32 count; /* [in] all of it */
	__u32 reserved;
	__u32 site[];
};

struct ilk_d_original {
	__u64 address;
	__u32 length;
	__u32 reserved;
	__u8 bytes[ILK_WINDOW];
};

struct ilk_d_originals {
	struct ilk_head head;
	__u32 room; /* [in] */
	__u32 count; /* [out] how many there are: ENOSPC if there is no room for them */
	struct ilk_d_original original[]; /* [out] */
};

#define ILK_D_PATH 256

struct ilk_d_mapping {
	__u64 start;
	__u64 end;
	__u64 offset; /* in the file */
	char path[ILK_D_PATH]; /* zero-ended, as the client's process sees it; empty: too long, or not to be seen */
};

struct ilk_d_mapped {
	struct ilk_head head;
	__u32 room; /* [in] how many mappings there is room for */
	__u32 count; /* [out] how many there are of this image; what there is no room for is left out */
	__u32 image; /* [out] 0: there is none that the client has not been told of */
	__u32 lost; /* [out] images that there was no room to note, so far */
	struct ilk_d_mapping mapping[]; /* [out] */
};

struct ilk_d_settle {
	struct ilk_head head;
	__u64 moved; /* [out] records */
};

struct ilk_d_reap {
	struct ilk_head head;
	__u64 freed; /* [out] */
};

#endif
