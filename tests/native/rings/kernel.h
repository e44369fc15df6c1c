/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Need: what rings.c asks of the kernel, for one processor of user space. Its own headers are empty files there. */
#ifndef KERNEL_H
#define KERNEL_H

#include <stdbool.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#include "abi/gilk_abi.h"
#include "abi/ilk_abi.h"
#include "ilk/rings.h"

#define ILK_H /* ilk.h is about the rest of the driver */
#define ILK_RINGS (ILK_SETS * ILK_CLASSES)

struct irq_work {
	u64 queued;
};

struct ilk_buffers {
	u32 flags;
	u32 watermark;
	bool waiting;
	struct irq_work wake;
};

u32 ilk_class_size(u32 class_);
u64 ilk_reserve_slow(u32 which);

typedef struct {
	u64 value;
} local_t;

#define READ_ONCE(x) (*(const volatile typeof(x) *)&(x))
#define WRITE_ONCE(x, value) (*(volatile typeof(x) *)&(x) = (value))
#define barrier() __asm__ volatile("" ::: "memory")
#define smp_wmb() barrier()
#define smp_mb() __sync_synchronize()
#define smp_store_release(to, value) __atomic_store_n(to, value, __ATOMIC_RELEASE)
#define cmpxchg_local(at, old, new) __sync_val_compare_and_swap(at, old, new)
#define local_inc(at) ((void)__atomic_fetch_add(&(at)->value, 1, __ATOMIC_RELAXED))
#define raw_local_irq_save(flags) ((flags) = 0)
#define raw_local_irq_restore(flags) ((void)(flags))
#define DEFINE_PER_CPU(type, name) type name
#define raw_cpu_ptr(at) (at)
#define irq_work_queue(work) ((work)->queued++)

#endif
