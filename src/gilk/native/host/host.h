/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Need: all that the runtime asks of the place where it runs. Nothing else may be called, and native/runtime has no
 * instruction of its own for any of it.
 *
 * A host is a header that defines, inline, every function declared here: process.h in an arena of a traced process,
 * kernel.h in a module of the kernel, test.h in a program of the tests, which decides what happens there. The compiler
 * says which function a host lacks, or has with other types. None of them allocates, takes a lock, waits (but for
 * host_wait) or raises a signal, whatever it is given; what cannot be done is an answer.
 *
 * The words of a thread's block, and the clock as instruments have them, are in block.h.
 */
#ifndef GILK_HOST_H
#define GILK_HOST_H

#include "../abi/gilk_abi.h"

/* Threads, processors, time. */

/* The number of the process that runs, by its own PID namespace, as host_peek() takes it. */
static inline gilk_u32 host_pid(void);

/* The number of the thread that runs, by the same namespace. */
static inline gilk_u32 host_tid(void);

/* The processor that runs this, or ran it just now: a thread may be moved at any instruction. */
static inline gilk_u32 host_processor(void);

/* The counter that time stamps are taken from. It is read at each call, and on one processor never goes back. */
static inline gilk_u64 host_clock(void);

/* The same. One that nobody uses may be left out, and two may be one. */
static inline gilk_u64 host_stamp(void);

/* For how long the thread has run on processors, in ns; 0 where it is not told. */
static inline gilk_u64 host_thread_time(void);

/* Send signal `number`, 1 to 64, to a thread. Nobody is told when it cannot be sent. */
static inline void host_signal(gilk_u32 pid, gilk_u32 tid, gilk_u32 number);

/*
 * Memory that may not be there. `pid` says whose, by host_pid(), or by a number of another process where the host can
 * reach one; in the kernel it is that of the kernel, too. No address does harm.
 */

/* Copy from `from` on as much as can be read, in order: how many bytes, or less than 0 if there are none. */
static inline long host_peek_some(gilk_u32 pid, void *to, gilk_u64 from, gilk_u64 size);

/* Copy it all: 0, or less than 0 if any of it cannot be read; what `to` holds then is not said. */
static inline int host_peek(gilk_u32 pid, void *to, gilk_u64 from, gilk_u64 size);

/* Write it all: 0, or less than 0 if any of it cannot be written; what has been written then is not said. */
static inline int host_poke(gilk_u32 pid, gilk_u64 to, const void *from, gilk_u64 size);

/* Whether there is memory of the process itself that can be read, 8 bytes from there on. In processes alone. */
static inline int host_is_readable(gilk_u64 address);

/*
 * Whether room may be taken that is there: of a buffer, a table, a slot, a block. Always 1, except in test.h, which
 * refuses it on demand.
 */
static inline int host_has_room(void);

/*
 * Words in memory of the processor that runs this (host_processor()): each change is one, whatever comes in between on
 * that processor; and on all others, where a thread may be moved to one of them. Elsewhere, in the kernel, nobody else
 * changes them while that processor may.
 */

/* Make it `to` if it is `from`; 1 if it was. */
static inline int host_swap_own(gilk_u64 *word, gilk_u64 from, gilk_u64 to);

/* The same of a smaller one. */
static inline int host_swap32_own(gilk_u32 *word, gilk_u32 from, gilk_u32 to);

/* Add to it. */
static inline void host_add_own(gilk_u64 *word, gilk_u64 value);

/*
 * HOST_TRIES	how often something is tried again that only the progress of others can make fail. It bounds what
 *		memory that was scribbled on can do.
 * HOST_IN_PLACE	1 where the page that a thread's stack pointer is in can be read as it is, from there on
 */

/*
 * A host that has these defines HOST_IN_PROCESS: its threads belong to a process with descriptors, and each has a block
 * of its own (struct gilk_block). In the kernel rings are a processor's, and what a task has is read from the task.
 */
#ifndef __KERNEL__

/* The identity of the thread that runs: nonzero, and no other's that lives in this address space. */
static inline gilk_u64 host_self(void);

struct host_stack { /* stack_t */
	gilk_u64 start;
	gilk_u64 flags;
	gilk_u64 size;
};

#define HOST_NO_STACK 2 /* in flags: there is none; SS_DISABLE */

/* Where the alternate signal stack of the thread lies; where that cannot be told, there is none. */
static inline void host_other_stack(struct host_stack *stack);

/* Make `block` the one of this thread. */
static inline void host_attach(struct gilk_block *block);

/* The block of this thread, or whatever its host had it begin with. */
static inline struct gilk_block *host_block(void);

/* The owner that is noted in that block. */
static inline gilk_u64 host_owner(void);

/* Sleep while *word is `value`, for at most so many ns. May come back earlier. */
static inline void host_wait(const gilk_u32 *word, gilk_u32 value, long nanoseconds);

/* Wake all who wait for *word, in whatever process. */
static inline void host_wake(const gilk_u32 *word);

/* The working directory, ended by NUL: bytes with that, or less than 0 if there is no room for it, or it has no name. */
static inline long host_cwd(char *to, gilk_u64 size);

/* The name of a descriptor's file, as /proc/PID/fd has it, without a NUL: how many bytes, at most `size`; less than 0
 * if there is none. */
static inline long host_fd_path(gilk_u32 fd, char *to, gilk_u64 size);

/* Where its next byte is; less than 0 if it is none, or of something without places. */
static inline long host_fd_offset(gilk_u64 fd);

/* O_* of open(2); less than 0 if it is none. */
static inline long host_fd_flags(gilk_u64 fd);

/* The number of its mount, as in /proc/PID/mountinfo; 0 if that is not told, -1 if it is none. */
static inline long host_fd_mount(gilk_u64 fd);

/* The thread's name, ended by NUL, in 16 bytes; less than 0 if it is not told. */
static inline long host_thread_name(char *to);

/* Its niceness, from -20 to 19. */
static inline long host_thread_nice(void);

/* Its priority as the kernel has it: from 0, the most urgent, to 139; -1 of one with a deadline. */
static inline long host_thread_priority(void);

#endif

#if defined(GILK_HOST_TEST)
#include "test.h"
#elif defined(__KERNEL__)
#include "kernel.h"
#else
#include "process.h"
#endif

#endif
