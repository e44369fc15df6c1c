/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * DTrace's subroutines about locks, of what a kernel keeps in them: the task that owns a mutex has three flags below it;
 * of a lock for readers and a writer the lowest eight bits are the writer's, the next says that one waits, and readers
 * are counted above. All mutexes of Linux are adaptive.
 */

inline void *mutex_owner[struct mutex *M] = (void *)(M->owner.counter & ~7);
inline int mutex_owned[struct mutex *M] = (M->owner.counter & ~7) == (long)curthread;
inline int mutex_type_adaptive[struct mutex *M] = 1;
inline int mutex_type_spin[struct mutex *M] = 0;
inline int rw_read_held[struct qrwlock *L] = L->cnts.counter >> 9 != 0;
inline int rw_write_held[struct qrwlock *L] = (L->cnts.counter & 0xff) == 0xff;
inline int rw_iswriter[struct qrwlock *L] = (L->cnts.counter & 0x1ff) != 0;
