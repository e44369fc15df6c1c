/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The clauses of a D program and their consumer share this: one memory object,
 * mapped by the traced processes and by the consumer at different addresses.
 * Every reference in it is an offset. Clauses run in all of them at once, on
 * many threads, in signal handlers, and any of them may die between two
 * instructions. Nothing here is a lock: no one ever waits for anyone.
 *
 *   control      page 0: struct gd_layout, run state
 *   drops        struct gd_drops[buffers], one for each processor
 *   globals      bytes, at offsets that the compiler assigns
 *   buffers      principal buffers, one for each processor (number modulo buffers)
 *   tables       aggregations: GD_BANKS * shards of them
 *   dynamic      thread-local variables and associative arrays
 *   speculations
 *   scratch      memory that a clause has until it ends
 *   unwind       tables for stacks, where the program asks for some: gilk_unwind.h
 *
 * Memory starts as zeroes. Whoever runs clauses has its own copy of the layout,
 * made when the program was planned, and never reads the one in page 0: that
 * may have been scribbled on. All else that is read from here is bounded before use.
 *
 * Principal buffers. Positions are counts of bytes, which only grow, and are taken
 * modulo the size (a power of two). Records take whole granules; each granule has a
 * mark in a separate array. A mark describes the record that begins at its granule:
 * lap (position / size + 1), owner's tid, length, state. The lap of a mark only
 * grows. To reserve at w = wpos, with w + length <= limit:
 *
 *     cmpxchg mark(w): any value of an earlier lap -> BUSY, lap(w), length
 *     cmpxchg wpos: w -> w + length
 *
 * A thread that finds a mark of this lap at wpos does the second step for the mark's owner,
 * and tries again: so wpos passes w only after the mark is set, and no mark is set
 * where wpos no longer is. If a record does not fit before the end of the buffer, a
 * VOID record fills the rest. Commit is one store, BUSY -> DONE; discard is
 * BUSY -> VOID. The reader takes DONE records up to the first BUSY one, and then
 * advances limit; it writes no marks, except that it turns those of dead threads
 * into VOID.
 *   switch  a record that finds the buffer full is dropped, and counted.
 *   fill    the reader reads at the end. Full: `full` is set, nothing is counted.
 *   ring    the reader reads at the end; a writer drops the oldest record by a
 *           cmpxchg of limit. While that one is BUSY, records are dropped and counted.
 *
 * Aggregations. A table has slots and a heap. A slot is 0, or refers to an entry from
 * then on: high half of the hash, place in the heap. To insert, a thread reserves room in
 * the heap (`used`, a cmpxchg), fills the entry, and publishes it by a cmpxchg of an
 * empty slot. Before that nobody sees the entry, so an insert that is interrupted, by
 * a handler that inserts the same key or by the thread's death, costs only the room. A
 * thread whose cmpxchg fails examines the entry that is there now, and goes on from
 * there. Cells begin as 0 and change by locked adds; entries with empty keys are
 * found through `direct`. A processor uses the shard of its number; the consumer adds
 * up all shards. Cells are described in data.py, except that MIN and MAX have two, of
 * which generation & 1 selects the one in use. They hold value ^ GD_MIN_FLIP and
 * value ^ GD_MAX_FLIP, so that the greater unsigned number wins, and 0 means no value.
 * generation[number] belongs to the consumer: clear() and trunc() increment it, after
 * zeroing the cells that come into use. Writers store the generation in `touched`, and
 * repeat the update if it has changed meanwhile. For sums and counts the consumer
 * subtracts the values at the last clear(). An entry is never removed; `bank` selects
 * the tables in use, and the consumer empties the others when no clause runs any more
 * that began before it changed `bank`. Threads of the process announce in their block
 * (`inside`, gilk_abi.h) that they run a clause.
 *
 * Sum of squares: low += l; high += h + carry. Between the two a reader sees
 * the carry missing; nothing is lost.
 *
 * Dynamic variables. Slots of one size, found by probing from the hash on, at most
 * reach[home] slots far, a number that only grows. A slot's word has version, tag of
 * the hash, pins, state. All changes are cmpxchgs of the word, and freeing increments
 * the version, so that no cmpxchg of an old word succeeds.
 *     FREE -> CLAIMED      by the inserter, who fills in key and value
 *     CLAIMED -> INSERTING key and value can be read
 *     INSERTING -> MEMBER  after a scan of all slots within reach that has
 *                          found no other slot of this key, see dynamic.h
 *     INSERTING -> LOST    another slot of this key has won; the owner frees it
 *     MEMBER -> FREE       deleted; with pins, -> DOOMED, and the last to unpin frees
 * A load copies the value, and checks the word again: if it has changed, the variable
 * does not exist. A store pins the slot. So nobody reads or writes a slot that has been
 * reused. An owner that dies leaves its slot unused.
 *
 * Speculations. One word has generation, state, writers, fill. A record is reserved
 * by a cmpxchg that adds to fill and writers. commit() and discard() change the state.
 * Whoever then sets writers to 0, that clause or the last writer, moves the
 * records and frees the speculation. In a kernel a clause moves few records only, as a
 * writer; the others are moved when the consumer asks for it (ILK_D_SETTLE).
 *
 * Scratch. Slots, claimed by cmpxchg of a word that holds the owner's tid, given
 * back when the clause ends. The consumer frees those of the dead.
 *
 * Limits: a process that forks in a signal handler which has interrupted a clause
 * finishes that clause twice. A handler that leaves a clause by longjmp keeps what it had.
 *
 * Ownership: the client creates and frees the memory and writes the layout, the
 * generations and the bank; `state` is written by both.
 */
#ifndef GILK_D_H
#define GILK_D_H

#include "gilk_abi.h"

typedef gilk_u8 gd_u8;
typedef unsigned short gd_u16;
typedef gilk_u32 gd_u32;
typedef gilk_u64 gd_u64;
typedef long gd_s64;

#define GD_MAGIC 0x31444b4c4947UL
#define GD_VERSION 1
#define GD_GRANULE 32		 /* bytes; also the size of a record's header */
#define GD_MAX_RECORD (65535 * GD_GRANULE) /* bytes, with the header */
#define GD_BANKS 2
#define GD_REACH 128		 /* slots that are probed at most */

enum gd_state { GD_INACTIVE, GD_ACTIVE, GD_DRAINING, GD_BEGINNING }; /* GD_BEGINNING: only BEGIN may run */
#define GD_BEGIN_PROBE 1 /* providers/own.py */
enum gd_policy { GD_SWITCH, GD_FILL, GD_RING };

#define GD_EXITED 0x80000000U

/* The offsets of the parts, in bytes from the start of the memory unless stated otherwise. */
struct gd_layout {
	gd_u64 size; /* of it all */
	gd_u64 policy;
	gd_u64 strsize;
	gd_u64 drops;
	gd_u64 globals;
	gd_u64 globals_size;

	gd_u64 buffers; /* how many; a power of two */
	gd_u64 buffer_first;
	gd_u64 buffer_stride;
	gd_u64 buffer_size; /* of the data, a power of two */
	gd_u64 buffer_marks; /* in a buffer: gd_u64[buffer_size / GD_GRANULE] */
	gd_u64 buffer_data;  /* in a buffer */

	gd_u64 aggregations; /* numbers are below this */
	gd_u64 generations;  /* gd_u32[aggregations] */
	gd_u64 shards;	     /* a power of two */
	gd_u64 table_first;  /* table bank * shards + shard */
	gd_u64 table_stride;
	gd_u64 table_slots; /* how many; a power of two */
	gd_u64 table_direct; /* in a table: gd_u32[aggregations], heap words; 0: none */
	gd_u64 table_slot;   /* in a table: gd_u64[table_slots] */
	gd_u64 table_heap;   /* in a table */
	gd_u64 heap_size;

	gd_u64 dynamic_slots; /* how many; a power of two */
	gd_u64 dynamic_words; /* gd_u64[dynamic_slots] */
	gd_u64 dynamic_reach; /* gd_u32[dynamic_slots] */
	gd_u64 dynamic_first; /* slot 0's struct gd_variable, key, value */
	gd_u64 dynamic_stride;

	gd_u64 speculations; /* how many */
	gd_u64 speculation_first;
	gd_u64 speculation_stride;
	gd_u64 speculation_size; /* of the data, which follows the head */

	gd_u64 scratches; /* how many; a power of two, or 0 */
	gd_u64 scratch_owner; /* gd_u32[scratches]: tid; 0: free */
	gd_u64 scratch_first;
	gd_u64 scratch_size; /* of each */

	gd_u64 unwind; /* struct gu_head */
	gd_u64 unwind_size; /* 0: there are none */
};

struct gd_control {
	gd_u64 magic;
	gd_u32 version;
	gd_u32 state;	    /* enum gd_state */
	gd_u32 bank;	    /* of the tables in use */
	gd_u32 exit_status; /* of the first exit(): low 31 bits, and GD_EXITED; state goes from ACTIVE to DRAINING */
	gd_u64 reserved;
	struct gd_layout layout; /* for the reader; see above */
};

enum gd_drop {
	GD_DROP_PRINCIPAL,
	GD_DROP_AGGREGATION,
	GD_DROP_DYNAMIC,
	GD_DROP_SPECULATION,
	GD_DROP_SPECULATION_BUSY,
	GD_DROP_SPECULATION_UNAVAILABLE,
	GD_DROP_DBLERROR,
	GD_DROP_STACK,
	GD_DROPS
};

struct gd_drops {
	gd_u64 count[GD_DROPS]; /* a cache line */
};

/* Principal buffers. */
struct gd_buffer {
	gd_u64 wpos;
	gd_u64 full; /* fill: set when something found no room */
	gd_u64 chill_since; /* ns: start of the second in which chill() is limited on this processor */
	gd_u64 chill_spent; /* ns of that second that chill() has used */
	gd_u64 reserved[4];
	gd_u64 limit; /* the end of the free room; moved by the reader, with GD_RING by writers */
	gd_u64 reserved2[7];
};

/* A mark: state in bits 0-1, granules 2-17, tid 18-39, lap 40-63. The lap of a mark that has been set is not 0. */
enum gd_mark { GD_BUSY = 1, GD_DONE = 2, GD_VOID = 3 };
#define GD_MARK_GRANULES 2
#define GD_MARK_TID 18
#define GD_MARK_LAP 40

struct gd_record {
	gd_u32 size; /* bytes, this header included */
	gd_u32 epid;
	gd_u64 tsc;
	gd_u32 tid;
	gd_u32 pid;
	gd_u32 cpu;
	gd_u32 probe;
};

/* The data of a record of a fault; its epid is GD_EPID_FAULT. */
#define GD_EPID_FAULT 0xffffffffU

struct gd_fault_data {
	gd_u32 epid;
	gd_u32 action;
	gd_u32 offset;
	gd_u32 fault; /* enum gd_fault */
	gd_u64 address;
};

/* The numbers that DTrace has: arg4 of the ERROR probe. */
enum gd_fault {
	GD_FAULT_NONE,
	GD_FAULT_ADDRESS,   /* invalid address */
	GD_FAULT_ALIGNMENT, /* invalid alignment */
	GD_FAULT_ILLEGAL,   /* illegal operation */
	GD_FAULT_DIVIDE,    /* divide-by-zero */
	GD_FAULT_SCRATCH,   /* out of scratch space */
	GD_FAULT_KERNEL,    /* invalid kernel access */
	GD_FAULT_USER,	    /* invalid user access */
	GD_FAULT_TUPLE,	    /* tuple stack overflow */
	GD_FAULT_STACK,	    /* bad stack */
	GD_FAULT_SIZE,	    /* invalid size */
	GD_FAULT_INDEX,	    /* index out of bounds */
	GD_FAULT_LIBRARY    /* library-level fault */
};

/* Aggregations. */
#define GD_MIN_FLIP 0x7fffffffffffffffUL
#define GD_MAX_FLIP 0x8000000000000000UL
#define GD_QUANTIZE_CELLS 127

struct gd_table {
	gd_u64 used; /* of the heap, bytes; the first GD_GRANULE bytes stay unused */
	gd_u64 reserved[7];
};

/* In the heap, at a multiple of 8; key, padded to 8, and cells follow. */
struct gd_entry {
	gd_u32 number;
	gd_u32 key_size; /* bytes */
	gd_u32 cells;	 /* how many there are, twice the ones used for MIN and MAX */
	gd_u32 touched;	 /* generation when last updated, plus one */
};

/* Dynamic variables. Word: state 0-2, pins 3-14, tag 15-31, version 32-63. */
enum gd_slot { GD_FREE, GD_CLAIMED, GD_INSERTING, GD_MEMBER, GD_LOST, GD_DOOMED };
#define GD_SLOT_PIN 3
#define GD_SLOT_TAG 15
#define GD_SLOT_VERSION 32
#define GD_SELF 0x80000000U /* in the number of a variable: every thread has its own */

struct gd_variable { /* key, padded to 8, and value follow */
	gd_u64 thread; /* 0: not a thread's */
	gd_u32 variable;
	gd_u32 key_size;
};

/* Speculations. Word: state 0-1, writers 2-15, fill in granules 16-39, generation 40-63. */
enum gd_speculating { GD_SPEC_FREE, GD_SPEC_ACTIVE, GD_SPEC_COMMITTING, GD_SPEC_DISCARDING };
#define GD_SPEC_WRITER 2
#define GD_SPEC_FILL 16
#define GD_SPEC_GENERATION 40

struct gd_speculation { /* records follow, in granules */
	gd_u64 word;
	gd_u64 reserved[7];
};

/* Whether clauses of this probe run in a program of that state. */
static inline int gd_lets(gd_u32 state, gd_u32 probe)
{
	return state == GD_ACTIVE || (state == GD_BEGINNING && probe == GD_BEGIN_PROBE);
}

#endif
