/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Need: every service that the runtime asks of its host. The runtime calls nothing else, and native/runtime has no
 * instruction of its own for any of these services.
 *
 * A host is a header that defines, inline, every function declared here: process.h in an arena of a traced process,
 * kernel.h in a module of the kernel, test.h in a program of the tests, which decides what happens there. The compiler
 * reports a function that a host lacks or defines with other types. None of them allocates, takes a lock, waits (except
 * host_wait) or raises a signal, whatever its arguments; each returns a value that says when something cannot be done.
 *
 * The words of a thread's block, and the clock as instruments have them, are in block.h.
 */
#ifndef GILK_HOST_H
#define GILK_HOST_H

#include "../abi/gilk_abi.h"

/* Threads, processors, time. */

/* The number of the running process in its own PID namespace, as host_peek() takes it. */
static inline gilk_u32 host_pid(void);

/* The number of the running thread in the same namespace. */
static inline gilk_u32 host_tid(void);

/* The processor that runs this code. It may be out of date at once: a thread may be moved at any instruction. */
static inline gilk_u32 host_processor(void);

/* The counter that time stamps are taken from, read anew at each call. It never goes back on one processor. */
static inline gilk_u64 host_clock(void);

/* The same counter; the compiler may drop an unused read, and may merge two reads. */
static inline gilk_u64 host_stamp(void);

/* The processor time that the thread has used, in ns; 0 where the host does not know. */
static inline gilk_u64 host_thread_time(void);

/* Send signal `number`, 1 to 64, to a thread. A signal that cannot be sent is ignored. */
static inline void host_signal(gilk_u32 pid, gilk_u32 tid, gilk_u32 number);

/*
 * Memory that may not be mapped. `pid` is the process whose memory it is: host_pid(), or another process where the host
 * can reach one; the kernel's host ignores it for kernel addresses. No address does any harm.
 */

/* Copy from `from` on as many bytes as can be read, in order. Returns how many; less than 0 if not even one. */
static inline long host_peek_some(gilk_u32 pid, void *to, gilk_u64 from, gilk_u64 size);

/* Copy all bytes. Returns 0; less than 0 if a byte cannot be read, and then the content of `to` is undefined. */
static inline int host_peek(gilk_u32 pid, void *to, gilk_u64 from, gilk_u64 size);

/* Write all bytes. Returns 0; less than 0 if a byte cannot be written, and then some may have been written. */
static inline int host_poke(gilk_u32 pid, gilk_u64 to, const void *from, gilk_u64 size);

/*
 * Whether free room may be taken: of a buffer, a table, a slot, a block. Always 1, except in test.h, which refuses it
 * on demand.
 */
static inline int host_has_room(void);

/*
 * Words in memory that belongs to the running processor (host_processor()). Each change is atomic against interrupts
 * and signal handlers on that processor, and against other processors where a thread may be moved between them. In the
 * kernel a thread is not moved meanwhile, and only that processor changes its words.
 */

/* Store `to` if the word equals `from`. Returns 1 if it did. */
static inline int host_swap_own(gilk_u64 *word, gilk_u64 from, gilk_u64 to);

/* The same for a word of 32 bits. */
static inline int host_swap32_own(gilk_u32 *word, gilk_u32 from, gilk_u32 to);

/* Add `value` to the word. */
static inline void host_add_own(gilk_u64 *word, gilk_u64 value);

/*
 * HOST_TRIES	how often an operation is retried that fails only when others make progress. It bounds the time that
 *		corrupted memory can cost.
 * HOST_IN_PLACE	1 where the rest of the page that the stack pointer points into can be read with plain loads
 */

/*
 * A host that has these functions defines HOST_IN_PROCESS: its threads belong to a process with descriptors, and each
 * has a block of its own (struct gilk_block). In the kernel each processor has a ring, and facts about a task are read
 * from it.
 */
#ifndef __KERNEL__

/* Whether 8 bytes at the address are mapped readable in the process itself. */
static inline int host_is_readable(gilk_u64 address);

/* The identity of the running thread: nonzero, and unique among the living threads of this address space. */
static inline gilk_u64 host_self(void);

struct host_stack { /* stack_t */
	gilk_u64 start;
	gilk_u64 flags;
	gilk_u64 size;
};

#define HOST_NO_STACK 2 /* in flags: there is no alternate stack; SS_DISABLE */

/* The alternate signal stack of the thread; HOST_NO_STACK where the host cannot tell. */
static inline void host_other_stack(struct host_stack *stack);

/* Whether the process `pid`, by its number in this PID namespace, has no thread `tid`. 0 where the host cannot tell. */
static inline int host_is_gone(gilk_u32 pid, gilk_u32 tid);

/* Make `block` the block of this thread. */
static inline void host_attach(struct gilk_block *block);

/* The block of this thread; before it has one, the value that its host gave it at the start. */
static inline struct gilk_block *host_block(void);

/* The owner that is recorded in that block. */
static inline gilk_u64 host_owner(void);

/* Sleep while *word is `value`, for at most `nanoseconds`. May return earlier. */
static inline void host_wait(const gilk_u32 *word, gilk_u32 value, long nanoseconds);

/* Wake all threads that wait for *word, in every process. */
static inline void host_wake(const gilk_u32 *word);

/*
 * The working directory, ended by NUL. Returns its bytes with the NUL; less than 0 if it has no name or does not fit.
 */
static inline long host_cwd(char *to, gilk_u64 size);

/* The name of a descriptor's file, as /proc/PID/fd has it, without a NUL: how many bytes, at most `size`; less than 0
 * if there is none. */
static inline long host_fd_path(gilk_u32 fd, char *to, gilk_u64 size);

/* The offset of the descriptor; less than 0 if it is not open, or its file has no offset (a pipe). */
static inline long host_fd_offset(gilk_u64 fd);

/* The descriptor's O_* flags of open(2); less than 0 if it is not open. */
static inline long host_fd_flags(gilk_u64 fd);

/* The number of the mount that its file is on, as in /proc/PID/mountinfo; 0 if unknown, -1 if it is not open. */
static inline long host_fd_mount(gilk_u64 fd);

/* The thread's name, ended by NUL, in 16 bytes; less than 0 if unknown. */
static inline long host_thread_name(char *to);

/* The thread's niceness, from -20 to 19. */
static inline long host_thread_nice(void);

/* The thread's priority in the kernel: 0, the most urgent, to 139; -1 under SCHED_DEADLINE. */
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
