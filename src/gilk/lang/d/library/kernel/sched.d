/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The probes of sched: see docs/d/providers.md. providers/kernel/sched.py has their places. */
#pragma D depends_on library procfs.d

/* Policies 1 and 2, FIFO and RR, have priorities of their own, above those by niceness. */
inline int new_priority[struct sched_attr *A] =
	A->sched_policy == 1 || A->sched_policy == 2 ? 99 - (int)A->sched_priority : 120 + A->sched_nice;

provider sched {
	probe off__cpu(struct task_struct *T, struct task_struct *P) : (lwpsinfo_t *T, psinfo_t *P);
	probe sleep();
	probe preempt();
	probe on__cpu();
	probe wakeup(struct task_struct *T, struct task_struct *P) : (lwpsinfo_t *T, psinfo_t *P);
	probe enqueue(struct task_struct *T, struct task_struct *P, struct rq *R) :
		(lwpsinfo_t *T, psinfo_t *P, cpuinfo_t *R);
	probe dequeue(struct task_struct *T, struct task_struct *P, struct rq *R, int I) :
		(lwpsinfo_t *T, psinfo_t *P, cpuinfo_t *R, int I);
	probe change__pri(struct task_struct *T, struct task_struct *P, int N) : (lwpsinfo_t *T, psinfo_t *P, int N);
	probe surrender(struct task_struct *T, struct task_struct *P) : (lwpsinfo_t *T, psinfo_t *P);
	probe tick(struct task_struct *T, struct task_struct *P) : (lwpsinfo_t *T, psinfo_t *P);
};
