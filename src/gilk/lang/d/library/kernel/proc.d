/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The probes of proc: see docs/d/providers.md. providers/kernel/proc.py has their places. */
#pragma D depends_on library procfs.d

inline int CLD_EXITED = 1;
inline int CLD_KILLED = 2;
inline int CLD_DUMPED = 3;

provider proc {
	probe create(struct task_struct *P) : (psinfo_t *P);
	probe lwp__create(struct task_struct *T, struct task_struct *P) : (lwpsinfo_t *T, psinfo_t *P);
	probe start();
	probe lwp__start();
	probe exec(string S) : (string S);
	probe exec__success();
	probe exec__failure(int E) : (int E);
	probe exit(int H) : (int H);
	probe lwp__exit();
	probe signal__send(struct task_struct *T, struct task_struct *P, int N) : (lwpsinfo_t *T, psinfo_t *P, int N);
	probe signal__discard(struct task_struct *T, struct task_struct *P, int N) : (lwpsinfo_t *T, psinfo_t *P, int N);
	probe signal__clear(int N) : (int N);
	probe signal__handle(int N, struct kernel_siginfo *I, uintptr_t H) : (int N, struct kernel_siginfo *I, uintptr_t H);
};
