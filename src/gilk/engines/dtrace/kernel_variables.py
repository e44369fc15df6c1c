# SPDX-License-Identifier: LGPL-2.1-or-later
"""Types of kernel variables that BTF lacks: Linux 6.1 has only per-CPU variables in it.

A row has a name, and the type with which the kernel's headers declare it. Any other variable has only an address,
``&`name``, which a program may cast to the pointer that it knows it to be.
"""

from __future__ import annotations

_ROWS = """
    jiffies                 unsigned long
    jiffies_64              uint64_t
    loops_per_jiffy         unsigned long
    max_pfn                 unsigned long
    max_low_pfn             unsigned long
    min_low_pfn             unsigned long
    totalreserve_pages      unsigned long
    total_swap_pages        long
    _totalram_pages         long
    high_memory             void *
    nr_threads              int
    max_threads             int
    pid_max                 int
    nr_cpu_ids              unsigned int
    nr_node_ids             unsigned int
    tainted_mask            unsigned long
    oops_in_progress        int
    panic_timeout           int
    console_printk          int[4]
    saved_command_line      char *
    linux_banner            char[256]
    linux_proc_banner       char[256]
    system_state            enum system_states
    crashing_cpu            int
    cad_pid                 struct pid *
    tasklist_lock           rwlock_t
    cgrp_dfl_root           struct cgroup_root
    init_task               struct task_struct
    init_mm                 struct mm_struct
    init_net                struct net
    init_pid_ns             struct pid_namespace
    init_nsproxy            struct nsproxy
    init_user_ns            struct user_namespace
    init_uts_ns             struct uts_namespace
    boot_cpu_data           struct cpuinfo_x86
    avenrun                 unsigned long[3]
    total_forks             unsigned long
    vm_swappiness           int
    sysctl_overcommit_memory int
    sysctl_sched_latency    unsigned int
    modules                 struct list_head
    super_blocks            struct list_head
    slab_caches             struct list_head
    tcp_hashinfo            struct inet_hashinfo
    tcp_memory_allocated    long
    root_task_group         struct task_group
"""

VARIABLES = dict(line.split(maxsplit=1) for line in _ROWS.strip().splitlines())
