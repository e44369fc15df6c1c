/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The arguments of lockstat's probes: the lock, ns, and for a reader-writer lock whether a reader or a writer waits. */

inline int RW_READER = 0;
inline int RW_WRITER = 1;

provider lockstat {
	probe adaptive__block(struct mutex *L, uint64_t T) : (struct mutex *L, uint64_t T);
	probe adaptive__spin(struct mutex *L, uint64_t T) : (struct mutex *L, uint64_t T);
	probe spin__spin(spinlock_t *L, uint64_t T) : (spinlock_t *L, uint64_t T);
	probe rw__spin(struct qrwlock *L, uint64_t T, int W) : (struct qrwlock *L, uint64_t T, int W);
	probe rw__block(struct rw_semaphore *L, uint64_t T, int W) : (struct rw_semaphore *L, uint64_t T, int W);
};
