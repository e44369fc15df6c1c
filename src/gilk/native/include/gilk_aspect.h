/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the C of woven aspects is made with (lang/aspect/code). It runs in programs, as advice does.
 *
 * The state of a file's aspects lies in memory that the weaver shares with all processes that the file is woven into:
 * struct gilk_woven, then the instances of sequences, then tables, then indexes of regions (gilk_region.h). The weaver
 * lays it out (engines/aspect/state.py) and reads it. Neither the weaver nor a process believes anything in it, since any of the processes may have written there:
 * each process has numbers that lead somewhere in memory that it shares with the weaver alone (struct gilk_woven_private),
 * and numbers from the common state are bounded by those. The threads change it, and nobody waits for anybody: whoever
 * finds a word busy for too long goes on without, and counts that.
 *
 * An instance's word has its stage above GILK_STAGE_AT (0: free), a version above GILK_VERSION_AT that grows with each
 * change, and GILK_BUSY while its record is written, which takes some stores and runs no code of users; it has the
 * thread that writes then where its version was, so that the weaver can free it when that thread has died. A record is
 * copied, and the word looked at again: conditions and advice see the copy.
 */
#ifndef GILK_ASPECT_H
#define GILK_ASPECT_H

#include <gilk.h>
#include "../abi/gilk_atomic.h"

#define GILK_ASPECTS 64
#define GILK_ELEMENTS 32
#define GILK_RECORD 568	  /* bytes for what an instance keeps */
/*
 * In the kernel interrupts are off, and a process may write whatever it likes there all the time. So a hit can afford a
 * number of looks at the state, all of its aspects together, and does without more; whatever that costs it is counted.
 */
#ifdef __KERNEL__
#define GILK_LOOKS 100 /* at a word that is busy */
static inline int gilk_afford(void);
#else
#define GILK_LOOKS 100000
#define gilk_afford() 1
#endif

struct gilk_aspect_counts {
	gilk_u64 matches[GILK_ELEMENTS];
	gilk_u64 begun, ended, until, late, replaced, lost;
	gilk_u64 crowded; /* matches whose advice found no room */
	gilk_u64 missed;  /* instances that were busy for too long to be looked at */
	gilk_u64 gone;	  /* instances that nobody could continue any more */
};

struct gilk_aspect_part {
	gilk_u64 high; /* no instance from here on was ever used */
	gilk_u64 open;
	gilk_u64 serial;
	gilk_u64 hint;	 /* where a free one may be */
	gilk_u64 marked; /* by the weaver, as those that nobody can continue any more, since the beginning */
	gilk_u64 unused[3];
	struct gilk_aspect_counts counts;
};

struct gilk_woven { /* parts are those of aspects, by number */
	gilk_u64 on; /* a bit for each aspect: one store switches all of them in all processes */
	gilk_u64 below, above; /* no memory that instances watch lies below ~below, or from above on: patches look there */
	gilk_u64 stays; /* the weaver's: not 0 where advice is to stay when the weaver is killed */
	gilk_u64 told, told_size; /* the weaver's: where it says what this is, for those who find it later */
	gilk_u64 unused[2];
	struct gilk_aspect_part part[GILK_ASPECTS];
};

struct gilk_limits {
	gilk_u64 limit;	 /* instances that there is room for */
	gilk_u64 first;	 /* where they lie, from the start of the common state */
	gilk_u64 within; /* ticks; 0: without */
	gilk_u64 index;	 /* of regions, from the start of the common state; below it, in 8 bits, log2 of its buckets */
};

struct gilk_woven_private { /* sets of ranges of code lie behind it */
	gilk_u64 scale; /* nanoseconds of a tick of the time stamp counter, times 2^32 */
	gilk_u64 unused[7];
	struct gilk_limits limits[GILK_ASPECTS];
};

struct gilk_instance {
	gilk_u64 word;
	gilk_u64 serial;
	gilk_u64 since; /* ticks */
	gilk_u32 pid, tid;
	gilk_u64 gone; /* the serial number of one that nobody can continue any more: the weaver has seen that */
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
#define GILK_DEAD 0x7fffUL /* the stage of one whose writer has died amid it */
#define gilk_stage(word) ((word) >> GILK_STAGE_AT & 0x7fff)

static inline gilk_u64 gilk_staged(gilk_u64 word, gilk_u64 stage)
{
	return ((word >> GILK_VERSION_AT) + 1) << GILK_VERSION_AT | stage << GILK_STAGE_AT;
}

/* pid and tid as the weaver sees them; nanoseconds, the same clock in all threads. */
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
#define gilk_readable() 1 /* whatever conditions have read */

static inline int gilk_pid(void)
{
	return (int)gilk_block_load(16);
}

static inline int gilk_tid(void)
{
	return (int)(gilk_block_load(16) >> 32);
}
#endif

static inline long gilk_now(void)
{
	return (long)((unsigned __int128)gilk_time() * gilk_private.scale >> 32);
}

typedef gilk_u64 gilk_any_word __attribute__((may_alias, aligned(1)));

/* Without a call of memcpy, which a compiler makes of such loops: a word at once, then what is left. */
static inline void gilk_copy(void *to, const void *from, unsigned long size)
{
	unsigned long n = 0;

	for (; n + 8 <= size; n += 8)
		*(volatile gilk_any_word *)((char *)to + n) = *(const gilk_any_word *)((const char *)from + n);
	for (; n < size; n++)
		((volatile char *)to)[n] = ((const char *)from)[n];
}

/* A string into an array, as far as there is room; zeros behind it. */
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

/* Whether two values of one type are not equal, as C compares numbers; all others are equal if their bytes are. */
#ifdef __KERNEL__ /* which has no floating-point numbers */
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

/* How many instances have to be looked at: those from there on were never used. */
static inline gilk_u64 gilk_high(const struct gilk_aspect_part *part)
{
	gilk_u64 high = __atomic_load_n(&part->high, __ATOMIC_ACQUIRE), limit = gilk_limits(part)->limit;

	return high < limit ? high : limit;
}

/* A copy of an open one; its word as it was then, 0 if there is none. */
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
			__builtin_ia32_pause();
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

/* It is ours to write, if nobody has changed it since. */
static inline int gilk_take(struct gilk_instance *one, gilk_u64 word)
{
	gilk_u64 tid = (gilk_u32)gilk_tid();

	return gilk_swap(&one->word, word, tid << GILK_VERSION_AT | (word & 0xfffe) | GILK_BUSY);
}

/* To another stage at once, with the record as it is: nobody finds it busy. */
static inline int gilk_pass(struct gilk_instance *one, gilk_u64 word, gilk_u64 stage)
{
	return gilk_swap(&one->word, word, gilk_staged(word, stage));
}

static inline void gilk_put(struct gilk_instance *one, gilk_u64 word, gilk_u64 stage)
{
	__atomic_store_n(&one->word, gilk_staged(word, stage), __ATOMIC_RELEASE);
}

/* The one that has ended is the next to be used: those in use stay close together, as all of them are looked at. */
static inline void gilk_set_free(struct gilk_aspect_part *part, const struct gilk_instance *one)
{
	__atomic_fetch_sub(&part->open, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&part->hint, (gilk_u64)(one - gilk_instance(part, 0)), __ATOMIC_RELAXED);
}

/* End it, and count that; 0 if somebody else has changed it since. */
static inline int gilk_end(struct gilk_aspect_part *part, struct gilk_instance *one, gilk_u64 word, gilk_u64 *how)
{
	if (!gilk_swap(&one->word, word, gilk_staged(word, 0)))
		return 0;
	gilk_set_free(part, one);
	gilk_add(how, 1);
	return 1;
}

/* End the one that has this serial number, also if others go on with it meanwhile: one that began later replaces it. */
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

/* Whether it is older than the aspect permits; it has ended then. */
static inline int gilk_is_late(struct gilk_aspect_part *part, struct gilk_instance *one, gilk_u64 word,
			       const struct gilk_instance *copy)
{
	gilk_u64 within = gilk_limits(part)->within;

	if (!within || gilk_time() - copy->since <= within)
		return 0;
	gilk_end(part, one, word, &part->counts.late);
	return 1;
}

/* Whether nobody can continue it any more; it has ended then. */
static inline int gilk_is_gone(struct gilk_aspect_part *part, struct gilk_instance *one, gilk_u64 word,
			       const struct gilk_instance *copy)
{
	if (gilk_stage(word) != GILK_DEAD && copy->gone != copy->serial)
		return 0;
	gilk_end(part, one, word, &part->counts.gone);
	return 1;
}

/* A free one, busy from now on, or 0: there are as many as there may be. */
static inline struct gilk_instance *gilk_begin(struct gilk_aspect_part *part, gilk_u64 *word)
{
	gilk_u64 limit = gilk_limits(part)->limit, at = __atomic_load_n(&part->hint, __ATOMIC_RELAXED), n, high;
	gilk_u64 open = __atomic_load_n(&part->open, __ATOMIC_RELAXED);
	struct gilk_instance *one;

	do {
		if (open >= limit || !gilk_afford())
			return 0;
	} while (!__atomic_compare_exchange_n(&part->open, &open, open + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	for (n = 0; n < 2 * limit && gilk_afford(); n++, at++) { /* others may free one that was passed by */
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
#define aspect_on(name) ((void)__atomic_fetch_or(&gilk_shared.on, 1UL << GILK_ASPECT_##name, __ATOMIC_RELAXED))
#define aspect_off(name) ((void)__atomic_fetch_and(&gilk_shared.on, ~(1UL << GILK_ASPECT_##name), __ATOMIC_RELAXED))

#endif
