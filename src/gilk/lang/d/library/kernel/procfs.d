/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What DTrace tells of processes, threads and processors, of the kernel's tasks: see docs/d/variables.md. A member that is
 * not in a translator has no value here.
 */

typedef struct timestruc { long tv_sec; long tv_nsec; } timestruc_t;

typedef struct lwpsinfo {
	int pr_flag;
	id_t pr_lwpid;
	uintptr_t pr_addr;
	uintptr_t pr_wchan;
	char pr_stype;
	char pr_state;
	char pr_sname;
	char pr_nice;
	short pr_syscall;
	int pr_oldpri;
	char pr_cpu;
	int pr_pri;
	char pr_clname[8];
	char pr_name[16];
	processorid_t pr_onpro;
	processorid_t pr_bindpro;
} lwpsinfo_t;

typedef struct psinfo {
	int pr_flag;
	int pr_nlwp;
	pid_t pr_pid;
	pid_t pr_ppid;
	pid_t pr_pgid;
	pid_t pr_sid;
	uid_t pr_uid;
	uid_t pr_euid;
	gid_t pr_gid;
	gid_t pr_egid;
	uintptr_t pr_addr;
	size_t pr_size;
	size_t pr_rssize;
	timestruc_t pr_start;
	timestruc_t pr_time;
	string pr_fname;
	string pr_psargs;
	int pr_argc;
	uintptr_t pr_argv;
	uintptr_t pr_envp;
	char pr_dmodel;
	taskid_t pr_taskid;
	projid_t pr_projid;
	zoneid_t pr_zoneid;
} psinfo_t;

inline char PR_MODEL_ILP32 = 1;
inline char PR_MODEL_LP64 = 2;
inline char SSLEEP = 1;
inline char SRUN = 2;
inline char SZOMB = 3;
inline char SSTOP = 4;
inline char SIDL = 5;
inline char SONPROC = 6;


typedef struct cpuinfo {
	processorid_t cpu_id;
	int cpu_pset;
	int cpu_chip;
	lgrp_id_t cpu_lgrp;
} cpuinfo_t;

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
	pr_dmodel = PR_MODEL_LP64;
	pr_taskid = 0;
	pr_projid = 0;
	pr_zoneid = 0;
};

/* Bits of __state: 4 stopped, 8 traced; of exit_state: 0x20 a zombie. */
inline char task_state[struct task_struct *T] =
	T->exit_state & 0x20 ? SZOMB : T->on_cpu ? SONPROC : T->__state == 0 ? SRUN : T->__state & 0xc ? SSTOP : SSLEEP;

translator lwpsinfo_t < struct task_struct *T > {
	pr_lwpid = T->pid;
	pr_addr = (uintptr_t)T;
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
	cpu_lgrp = `numa_node;
};

inline psinfo_t *curpsinfo = xlate <psinfo_t *> (curthread);
#pragma D attributes Stable/Stable/Common curpsinfo

inline lwpsinfo_t *curlwpsinfo = xlate <lwpsinfo_t *> (curthread);
#pragma D attributes Stable/Stable/Common curlwpsinfo

inline cpuinfo_t *curcpu = xlate <cpuinfo_t *> (cpu);
#pragma D attributes Stable/Stable/Common curcpu
