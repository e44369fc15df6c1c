/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Functions and types that the C code of woven aspects uses (lang/aspect/code). It runs in processes, as advice.
 *
 * The state of a file's aspects lies in memory that the weaver shares with all processes that the file is woven into:
 * struct gilk_woven, the instances of sequences, tables, and indexes of regions (gilk_region.h). The weaver lays it out
 * (engines/aspect/state.py) and reads it. Neither the weaver nor a process trusts its content, since any of the
 * processes may have written there: offsets and limits lie in memory that each process shares with the weaver alone
 * (struct gilk_woven_private), and numbers from the common state are checked against those. Threads change the state
 * without locks: a thread that finds a word busy for too long goes on without it, and counts that.
 *
 * An instance has a word with its stage above GILK_STAGE_AT (0: free), a version above GILK_VERSION_AT that grows with
 * each change, and GILK_BUSY while its record is written, which takes some stores and runs no code of users. While it
 * is busy, the word has the writing thread in the place of the version, so that the weaver can free the instance if
 * that thread has died. A reader copies the record, and then checks that the word has not changed: conditions and
 * advice see the copy.
 */
#ifndef GILK_ASPECT_H
#define GILK_ASPECT_H

#include <gilk.h>
#include "../abi/gilk_atomic.h"

#define GILK_ASPECTS 64
#define GILK_ELEMENTS 32
#define GILK_RECORD 568	  /* bytes of an instance's record */
/*
 * In the kernel interrupts are off, and a process may write to the state at any time. So a hit may examine a limited
 * number of places in the state, for all of its aspects together; instances that it skips because of that are counted.
 */
#ifdef __KERNEL__
#define GILK_LOOKS 100 /* how often a busy word is read again */
static inline int gilk_afford(void);
static inline void gilk_pause(void); /* while a word is busy */
#else
#define GILK_LOOKS 100000
#define gilk_afford() 1
#define gilk_pause() __builtin_ia32_pause()
#endif

struct gilk_aspect_counts {
	gilk_u64 matches[GILK_ELEMENTS];
	gilk_u64 begun, ended, until, late, replaced, lost;
	gilk_u64 crowded; /* matches whose advice had no room to run */
	gilk_u64 missed;  /* instances that were skipped because they were busy for too long */
	gilk_u64 gone;	  /* instances that ended because nobody could continue them */
	gilk_u64 unwalked; /* stacks that could not be walked to their end */
	gilk_u64 disagreed; /* matches at which calls were recorded that the stack did not have */
};

struct gilk_aspect_part {
	gilk_u64 high; /* instances from this number on were never used */
	gilk_u64 open;
	gilk_u64 serial;
	gilk_u64 hint;	 /* the number of an instance that may be free */
	gilk_u64 marked; /* instances that the weaver has marked so far, because nobody can continue them */
	gilk_u64 unused[3];
	struct gilk_aspect_counts counts;
};

struct gilk_woven { /* followed by a part for each aspect, by number */
	gilk_u64 on; /* a bit for each aspect: one store switches all of them in all processes */
	gilk_u64 below, above; /* watched memory lies between ~below and above; patches check that */
	gilk_u64 stays; /* set by the weaver: not 0 if advice stays when the weaver is killed */
	gilk_u64 told, told_size; /* set by the weaver: its description of the weaving, for whoever finds it later */
	gilk_u64 threads; /* set by the weaver: how many threads the table of struct gilk_member has */
	gilk_u64 unused;
	struct gilk_aspect_part part[GILK_ASPECTS];
};

struct gilk_limits {
	gilk_u64 limit;	 /* how many instances there is room for */
	gilk_u64 first;	 /* offset of the instances in the common state */
	gilk_u64 within; /* ticks; 0: unlimited */
	gilk_u64 index;	 /* offset of the index of regions in the common state, above 8 bits: log2 of its buckets */
};

struct gilk_woven_private { /* followed by sets of ranges of code */
	gilk_u64 scale; /* nanoseconds of a tick of the time stamp counter, times 2^32 */
	gilk_u64 tables, tables_size; /* unwind tables: how many bytes from here; 0 bytes if nobody walks stacks */
	gilk_u64 groups; /* those that the process is a member of, a bit each */
	gilk_u64 members; /* offset of the table of struct gilk_member in the common state */
	gilk_u64 unused[3];
	struct gilk_limits limits[GILK_ASPECTS];
};

struct gilk_instance {
	gilk_u64 word;
	gilk_u64 serial;
	gilk_u64 since; /* ticks */
	gilk_u32 pid, tid;
	gilk_u64 gone; /* a serial number: the weaver has found that nobody can continue that instance */
	char record[GILK_RECORD];
};

#ifdef __KERNEL__ /* kernel/gilk_woven.h */
extern struct gilk_woven *gilk_shared_memory;
extern struct gilk_woven_private gilk_private_part;
#define gilk_shared (*gilk_shared_memory)
#define gilk_private gilk_private_part
#else
extern __attribute__((visibility("default"))) struct gilk_woven gilk_shared;
extern __attribute__((visibility("default"))) const struct gilk_woven_private gilk_private;
#endif

#define GILK_BUSY 1UL
#define GILK_STAGE_AT 1
#define GILK_VERSION_AT 16
#define GILK_DEAD 0x7fffUL /* the stage of an instance whose writer has died while writing */
#define gilk_stage(word) ((word) >> GILK_STAGE_AT & 0x7fff)

static inline gilk_u64 gilk_staged(gilk_u64 word, gilk_u64 stage)
{
	return ((word >> GILK_VERSION_AT) + 1) << GILK_VERSION_AT | stage << GILK_STAGE_AT;
}

/* pid() and tid() are the weaver's numbers; times are nanoseconds of one clock for all threads. */
#ifdef __KERNEL__
static inline int gilk_pid(void)
{
	return current->tgid;
}

static inline int gilk_tid(void)
{
	return current->pid;
}
#else
#define gilk_readable() 1 /* conditions in processes read plain memory */

static inline int gilk_pid(void)
{
	return (int)gilk_block_load(16);
}

static inline int gilk_tid(void)
{
	return (int)(gilk_block_load(16) >> 32);
}
#endif

#ifndef __KERNEL__
/*
 * A thread that has joined groups by itself (lower half of `groups`), or left some (upper half). The weaver writes the
 * table: a thread lies at the place that it hashes to, or behind it; 0 ends a search.
 */
struct gilk_member {
	gilk_u64 tid;
	gilk_u64 groups;
};

#define GILK_MEMBER_BITS 10
#define GILK_MEMBER_TRIES 64

/* The groups that this thread is a member of, a bit each. */
static inline gilk_u64 gilk_groups(void)
{
	gilk_u64 own = gilk_private.groups, tid = (gilk_u32)gilk_tid(), at, n, found;
	const struct gilk_member *all;

	if (!__atomic_load_n(&gilk_shared.threads, __ATOMIC_RELAXED))
		return own;
	all = (const struct gilk_member *)((const char *)&gilk_shared + gilk_private.members);
	at = tid * 0x9e3779b97f4a7c15UL >> (64 - GILK_MEMBER_BITS);
	for (n = 0; n < GILK_MEMBER_TRIES; n++, at = (at + 1) & ((1 << GILK_MEMBER_BITS) - 1)) {
		found = __atomic_load_n(&all[at].tid, __ATOMIC_ACQUIRE);
		if (!found)
			break;
		if (found == tid) {
			found = __atomic_load_n(&all[at].groups, __ATOMIC_RELAXED);
			return (own & ~(found >> 32)) | (found & 0xffffffff);
		}
	}
	return own;
}
#endif

static inline long gilk_now(void)
{
	return (long)((unsigned __int128)gilk_time() * gilk_private.scale >> 32);
}

typedef gilk_u64 gilk_any_word __attribute__((may_alias, aligned(1)));

/* Copy words, and then the remaining bytes, without the call of memcpy() that compilers make of such loops. */
static inline void gilk_copy(void *to, const void *from, unsigned long size)
{
	unsigned long n = 0;

	for (; n + 8 <= size; n += 8)
		*(volatile gilk_any_word *)((char *)to + n) = *(const gilk_any_word *)((const char *)from + n);
	for (; n < size; n++)
		((volatile char *)to)[n] = ((const char *)from)[n];
}

/* Copy a string into an array, as far as it fits, and fill the rest with zeros. */
static inline void gilk_copy_text(char *to, const char *from, unsigned long size)
{
	unsigned long n;

	for (n = 0; n + 1 < size && from[n]; n++)
		((volatile char *)to)[n] = from[n];
	for (; n < size; n++)
		((volatile char *)to)[n] = 0;
}

static inline int gilk_differ(const void *one, const void *other, unsigned long size)
{
	unsigned long n = 0;

	for (; n + 8 <= size; n += 8)
		if (*(const volatile gilk_any_word *)((const char *)one + n) !=
		    *(const volatile gilk_any_word *)((const char *)other + n))
			return 1;
	for (; n < size; n++)
		if (((const volatile char *)one)[n] != ((const volatile char *)other)[n])
			return 1;
	return 0;
}

/* Whether two values of one type differ: numbers as C compares them, other types by their bytes. */
#ifdef __KERNEL__ /* the kernel has no floating-point numbers */
#define gilk_unequal(one, other) gilk_differ(&(one), &(other), sizeof(one))
#else
static inline int gilk_differ_float(const void *one, const void *other, unsigned long size)
{
	(void)size;
	return *(const float *)one != *(const float *)other;
}

static inline int gilk_differ_double(const void *one, const void *other, unsigned long size)
{
	(void)size;
	return *(const double *)one != *(const double *)other;
}

#define gilk_unequal(one, other) \
	_Generic((one), float: gilk_differ_float, double: gilk_differ_double, default: gilk_differ) \
	(&(one), &(other), sizeof(one))
#endif

/* Instances. */

static inline const struct gilk_limits *gilk_limits(const struct gilk_aspect_part *part)
{
	return gilk_private.limits + (part - gilk_shared.part);
}

static inline struct gilk_instance *gilk_instance(const struct gilk_aspect_part *part, gilk_u64 number)
{
	return (struct gilk_instance *)((char *)&gilk_shared + gilk_limits(part)->first) + number;
}

/* How many instances have to be examined; the others were never used. */
static inline gilk_u64 gilk_high(const struct gilk_aspect_part *part)
{
	gilk_u64 high = __atomic_load_n(&part->high, __ATOMIC_ACQUIRE), limit = gilk_limits(part)->limit;

	return high < limit ? high : limit;
}

/* Copy an open instance. Returns its word at that time; 0 if it is not open. */
static inline gilk_u64 gilk_look(struct gilk_aspect_part *part, struct gilk_instance *one, struct gilk_instance *copy,
				 unsigned long size)
{
	gilk_u64 word;
	int n;

	for (n = 0; n < GILK_LOOKS && gilk_afford(); n++) {
		word = __atomic_load_n(&one->word, __ATOMIC_ACQUIRE);
		if (!gilk_stage(word))
			return 0;
		if (word & GILK_BUSY) {
			gilk_pause();
			continue;
		}
		copy->serial = one->serial;
		copy->since = one->since;
		copy->pid = one->pid;
		copy->tid = one->tid;
		copy->gone = one->gone;
		gilk_copy(copy->record, one->record, size);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&one->word, __ATOMIC_RELAXED) == word)
			return word;
	}
	gilk_add(&part->counts.missed, 1);
	return 0;
}

/* Make an instance busy, so that only this thread writes to it, unless its word has changed. */
static inline int gilk_take(struct gilk_instance *one, gilk_u64 word)
{
	gilk_u64 tid = (gilk_u32)gilk_tid();

	return gilk_swap(&one->word, word, tid << GILK_VERSION_AT | (word & 0xfffe) | GILK_BUSY);
}

/* Set another stage in one step, without changing the record: nobody finds the instance busy. */
static inline int gilk_pass(struct gilk_instance *one, gilk_u64 word, gilk_u64 stage)
{
	return gilk_swap(&one->word, word, gilk_staged(word, stage));
}

static inline void gilk_put(struct gilk_instance *one, gilk_u64 word, gilk_u64 stage)
{
	__atomic_store_n(&one->word, gilk_staged(word, stage), __ATOMIC_RELEASE);
}

/*
 * Free an instance. It is used next, so that instances in use stay close together, as searches go through all of them.
 */
static inline void gilk_set_free(struct gilk_aspect_part *part, const struct gilk_instance *one)
{
	__atomic_fetch_sub(&part->open, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&part->hint, (gilk_u64)(one - gilk_instance(part, 0)), __ATOMIC_RELAXED);
}

/* End an instance, and count that. Returns 0 if somebody else has changed it since. */
static inline int gilk_end(struct gilk_aspect_part *part, struct gilk_instance *one, gilk_u64 word, gilk_u64 *how)
{
	if (!gilk_swap(&one->word, word, gilk_staged(word, 0)))
		return 0;
	gilk_set_free(part, one);
	gilk_add(how, 1);
	return 1;
}

/* End the instance with this serial number, also if others are moving it: an instance that began later replaces it. */
static inline void gilk_give_way(struct gilk_aspect_part *part, struct gilk_instance *one, gilk_u64 serial)
{
	struct gilk_instance seen;
	gilk_u64 word;
	int n;

	for (n = 0; n < GILK_LOOKS; n++) {
		word = gilk_look(part, one, &seen, 0);
		if (!word || seen.serial != serial || gilk_end(part, one, word, &part->counts.replaced))
			return;
	}
	gilk_add(&part->counts.missed, 1);
}

/* Whether the instance is older than the aspect permits; if so, end it. */
static inline int gilk_is_late(struct gilk_aspect_part *part, struct gilk_instance *one, gilk_u64 word,
			       const struct gilk_instance *copy)
{
	gilk_u64 within = gilk_limits(part)->within;

	if (!within || gilk_time() - copy->since <= within)
		return 0;
	gilk_end(part, one, word, &part->counts.late);
	return 1;
}

/* Whether nobody can continue the instance any more; if so, end it. */
static inline int gilk_is_gone(struct gilk_aspect_part *part, struct gilk_instance *one, gilk_u64 word,
			       const struct gilk_instance *copy)
{
	if (gilk_stage(word) != GILK_DEAD && copy->gone != copy->serial)
		return 0;
	gilk_end(part, one, word, &part->counts.gone);
	return 1;
}

/* Find a free instance, and make it busy; 0: all are in use. */
static inline struct gilk_instance *gilk_begin(struct gilk_aspect_part *part, gilk_u64 *word)
{
	gilk_u64 limit = gilk_limits(part)->limit, at = __atomic_load_n(&part->hint, __ATOMIC_RELAXED), n, high;
	gilk_u64 open = __atomic_load_n(&part->open, __ATOMIC_RELAXED);
	struct gilk_instance *one;

	do {
		if (open >= limit || !gilk_afford())
			return 0;
	} while (!__atomic_compare_exchange_n(&part->open, &open, open + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	for (n = 0; n < 2 * limit && gilk_afford(); n++, at++) { /* others may free passed ones */
		at = at < limit ? at : 0;
		one = gilk_instance(part, at);
		*word = __atomic_load_n(&one->word, __ATOMIC_RELAXED);
		if (gilk_stage(*word) || *word & GILK_BUSY || !gilk_take(one, *word))
			continue;
		__atomic_store_n(&part->hint, at + 1, __ATOMIC_RELAXED);
		high = __atomic_load_n(&part->high, __ATOMIC_RELAXED);
		while (high <= at && gilk_afford()
		       && !__atomic_compare_exchange_n(&part->high, &high, at + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			;
		one->serial = __atomic_add_fetch(&part->serial, 1, __ATOMIC_RELAXED);
		one->since = gilk_time();
		one->pid = (gilk_u32)gilk_pid();
		one->tid = (gilk_u32)gilk_tid();
		return one;
	}
	__atomic_fetch_sub(&part->open, 1, __ATOMIC_RELAXED);
	return 0;
}

#ifndef __KERNEL__
#include "gilk_calls.h"
#include "gilk_report.h"
#endif
#include "gilk_table.h"

#define pid() gilk_pid()
#define tid() gilk_tid()
#define now() gilk_now()
#define add(table, ...) gilk_add_to_##table(__VA_ARGS__)
#define aspect_on(name) ((void)__atomic_fetch_or(&gilk_shared.on, GILK_ASPECT_##name, __ATOMIC_RELAXED))
#define aspect_off(name) ((void)__atomic_fetch_and(&gilk_shared.on, ~GILK_ASPECT_##name, __ATOMIC_RELAXED))

#endif
