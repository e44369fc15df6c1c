/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The functions that a compiled D clause calls; the one file with the clauses includes this header. All functions are
 * static, and call nothing but each other.
 *
 * Ownership: the memory is the client's. A context belongs to one execution of one clause and lies on its stack;
 * gd_end() ends its use.
 *
 *   void gd_begin(ctx, void *memory, const struct gd_layout *, struct gd_event *);
 *   bool gd_active(ctx);                        whether the program's state is ACTIVE
 *   void gd_end(ctx);                           commits the record, or discards it if ctx->fault; frees scratch
 *   void gd_exit(ctx, u32 status);
 *   bool gd_fail(ctx, enum gd_fault, u64 address);   notes the first fault; returns false
 *   void gd_report(ctx, u32 epid, u32 action, u32 offset);   after gd_end(): a record of the fault
 *   void *gd_global(ctx, u32 offset);           within globals
 *   void gd_drop(ctx, enum gd_drop);
 *
 *   bool gd_reserve(ctx, u32 epid, u32 size);   ctx->data: size bytes, aligned to 8, NOT zeroed
 *   void gd_commit(ctx); void gd_discard(ctx);
 *
 *   Keys are aligned to 8, and all bytes behind a string's NUL must be zero (gd_strpad).
 *   void gd_count(ctx, u32 number, const void *key, u32 key_size);
 *   void gd_sum, gd_min, gd_max, gd_avg, gd_stddev(ctx, number, key, key_size, s64 value);
 *   void gd_quantize(ctx, number, key, key_size, s64 value, s64 weight);
 *   void gd_lquantize(ctx, number, key, key_size, s64 value, s64 low, s64 high, s64 step, s64 weight);
 *   void gd_llquantize(ctx, number, key, key_size, s64 value, const u64 *edges, u32 edge_count, s64 weight);
 *                                               edges: Aggregating.edges, none above 2**63
 *
 *   variable: the compiler's number, with the bit GD_SELF for self-> (then the thread is a part of the key)
 *   bool gd_dynamic_load(ctx, u32 variable, const void *key, u32 key_size, void *to, u32 size);
 *                                               false: the variable does not exist, and `to` is zeroed
 *   bool gd_dynamic_store(ctx, variable, key, key_size, const void *from, u32 size);
 *                                               false: no room, a drop is counted. size: that of the variable
 *   void gd_dynamic_delete(ctx, variable, key, key_size);
 *                                               the consumer frees the variables of threads that have ended
 *
 *   u64 gd_speculation(ctx);                    0: none is free, which is counted
 *   bool gd_speculate(ctx, u64 id);             before gd_reserve(); false: it is not active
 *   void gd_commit_speculation(ctx, u64 id); void gd_discard_speculation(ctx, u64 id);
 *
 *   void *gd_alloca(ctx, u64 size);             aligned to 8, not zeroed; NULL and fault when there is no room
 *   void *gd_asked(ctx, u64 size, u64 most);     the same, for at most `most` bytes of this kind
 *   bool gd_load(ctx, void *to, u64 address, u64 size);
 *   bool gd_store(ctx, u64 address, const void *from, u64 size);       copyout()
 *   bool gd_copyin_string(ctx, char *to, u64 from, u64 size);          always ends in NUL, within size
 *
 *   Destructive actions: deeds.h.
 *   u64 gd_walk_stack(ctx, u64 *to, u64 most);  addresses of frames, the innermost first; 0 where regs is null
 *
 *   Strings lie in buffers of layout->strsize bytes. A function that makes one takes such a buffer `to`, and returns it.
 *   See strings.h for strlen character strcmp strjoin substr index rindex strchr strrchr strstr strtok basename
 *   dirname cleanpath lltostr inet_ntoa inet_ntoa6 strpad tolower toupper strtoll, and gd_bcopy, gd_rand.
 */
#ifndef GILK_D_RUNTIME_H
#define GILK_D_RUNTIME_H

#include "base.h"
#include "bytes.h"
#include "records.h"
#include "speculation.h"
#include "scratch.h"
#include "peek.h"
#include "stack.h"
#include "table.h"
#include "aggregate.h"
#include "dynamic.h"
#include "strings.h"
#include "paths.h"
#include "numbers.h"
#include "clause.h"
#ifdef HOST_IN_PROCESS
#include "files.h"
#include "thread.h"
#endif

#endif
