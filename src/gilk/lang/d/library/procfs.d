/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * DTrace's types of processes and threads, as far as gilk knows a traced process: see docs/d/variables.md. A member in no
 * translator has no value here.
 */
#pragma D depends_on library process.d
#pragma D depends_on library process_types.d

translator psinfo_t < int P > {
	pr_pid = P;
	pr_ppid = ppid;
	pr_pgid = process_group;
	pr_sid = process_session;
	pr_uid = uid;
	pr_euid = euid;
	pr_gid = gid;
	pr_egid = egid;
	pr_fname = execname;
	pr_psargs = process_arguments;
	pr_argc = process_argc;
	pr_dmodel = PR_MODEL_LP64;
	pr_taskid = 0;
	pr_projid = 0;
	pr_zoneid = 0;
};

/* A thread is always running while one of its probes fires. */
translator lwpsinfo_t < int T > {
	pr_flag = 0;
	pr_lwpid = T;
	pr_addr = 0;
	pr_wchan = 0;
	pr_stype = 0;
	pr_nice = threadnice();
	pr_pri = threadpriority();
	pr_name = threadname();
	pr_state = SONPROC;
	pr_sname = 'O';
	pr_onpro = cpu;
};

inline psinfo_t *curpsinfo = xlate <psinfo_t *> (pid);
#pragma D attributes Stable/Stable/Common curpsinfo

inline lwpsinfo_t *curlwpsinfo = xlate <lwpsinfo_t *> (tid);
#pragma D attributes Stable/Stable/Common curlwpsinfo
