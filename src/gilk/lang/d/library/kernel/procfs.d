/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * DTrace's types of processes, threads and processors, for the kernel's tasks: see docs/d/variables.md. A member in no
 * translator has no value here.
 */
#pragma D depends_on library nodes.d
#pragma D depends_on library process_types.d
#pragma D depends_on library processor_types.d

/* PIDTYPE_PGID and PIDTYPE_SID are 2 and 3. */
translator psinfo_t < struct task_struct *T > {
	pr_nlwp = T->signal->nr_threads;
	pr_pid = T->tgid;
	pr_ppid = T->real_parent->tgid;
	pr_pgid = T->signal->pids[2]->numbers[0].nr;
	pr_sid = T->signal->pids[3]->numbers[0].nr;
	pr_uid = T->real_cred->uid.val;
	pr_euid = T->real_cred->euid.val;
	pr_gid = T->real_cred->gid.val;
	pr_egid = T->real_cred->egid.val;
	pr_addr = (uintptr_t)T;
	pr_fname = stringof(T->group_leader->comm);
	pr_psargs = argumentsof(T->mm);
	pr_dmodel = PR_MODEL_LP64;
	pr_taskid = 0;
	pr_projid = 0;
	pr_zoneid = 0;
};

/* Bits of __state: 4 stopped, 8 traced. Bit 0x20 of exit_state: a zombie. */
inline char task_state[struct task_struct *T] =
	T->exit_state & 0x20 ? SZOMB : T->on_cpu ? SONPROC : T->__state == 0 ? SRUN : T->__state & 0xc ? SSTOP : SSLEEP;

translator lwpsinfo_t < struct task_struct *T > {
	pr_flag = (T->__state & 0x4 ? PR_STOPPED : 0) | (T->pid == 0 ? PR_IDLE : 0);
	pr_lwpid = T->pid;
	pr_addr = (uintptr_t)T;
	pr_wchan = 0;
	pr_stype = 0;
	pr_name = stringof(T->comm);
	pr_state = task_state[T];
	pr_sname = task_state[T] == SZOMB ? 'Z' : task_state[T] == SONPROC ? 'O' : task_state[T] == SRUN ? 'R' :
		task_state[T] == SSTOP ? 'T' : 'S';
	pr_nice = T->static_prio - 120;
	pr_pri = T->prio;
	pr_onpro = T->thread_info.cpu;
};

translator cpuinfo_t < struct rq *R > {
	cpu_id = R->cpu;
	cpu_pset = 0;
};

translator cpuinfo_t < int C > {
	cpu_id = C;
	cpu_pset = 0;
	cpu_chip = `cpu_info.phys_proc_id;
	cpu_lgrp = own_node;
};

inline psinfo_t *curpsinfo = xlate <psinfo_t *> (curthread);
#pragma D attributes Stable/Stable/Common curpsinfo

inline lwpsinfo_t *curlwpsinfo = xlate <lwpsinfo_t *> (curthread);
#pragma D attributes Stable/Stable/Common curlwpsinfo
