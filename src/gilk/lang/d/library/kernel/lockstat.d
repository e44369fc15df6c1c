/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The arguments of lockstat's probes: the lock; of those about waits ns; for a reader-writer lock whether it is a reader
 * or a writer.
 */

inline int RW_READER = 0;
inline int RW_WRITER = 1;

/* What rwlock_t is without a name, and DTrace has one for. */
struct rwlock {
	arch_rwlock_t raw_lock;
};

provider lockstat {
	probe adaptive__acquire(struct mutex *L) : (struct mutex *L);
	probe adaptive__acquire__error(struct mutex *L, int E) : (struct mutex *L, int E);
	probe adaptive__release(struct mutex *L) : (struct mutex *L);
	probe adaptive__block(struct mutex *L, uint64_t T) : (struct mutex *L, uint64_t T);
	probe adaptive__spin(struct mutex *L, uint64_t T) : (struct mutex *L, uint64_t T);
	probe spin__acquire(spinlock_t *L) : (spinlock_t *L);
	probe spin__release(spinlock_t *L) : (spinlock_t *L);
	probe spin__spin(spinlock_t *L, uint64_t T) : (spinlock_t *L, uint64_t T);
	probe rw__acquire(struct rwlock *L, int W) : (struct rwlock *L, int W);
	probe rw__release(struct rwlock *L, int W) : (struct rwlock *L, int W);
	probe rw__spin(struct rwlock *L, uint64_t T, int W) : (struct rwlock *L, uint64_t T, int W);
	probe rw__block(struct rw_semaphore *L, uint64_t T, int W) : (struct rw_semaphore *L, uint64_t T, int W);
};
