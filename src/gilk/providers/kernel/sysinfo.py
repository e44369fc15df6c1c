# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``sysinfo``: counters of the system's activity; arg0 is the increment.

Flags of contention_begin: 2 a reader, 4 a writer, 32 a mutex. Flags of clones: 0x4000 is CLONE_VFORK, 0x10000
CLONE_THREAD.
"""

from __future__ import annotations

from collections.abc import Iterator

from gilk.lang.d.probes import Description
from gilk.providers.kernel import table
from gilk.providers.kernel.probe import HasKernel, KernelProbe

_PROCESS = "!args[0]->kthread && !args[0]->io_thread && (args[0]->flags & 0x10000) == 0"
_ROWS = table.rows(f"""
    pswitch        | t:sched_switch           | | 1
    inv_swtch      | t:sched_switch           | args[0] | 1
    inv_swtch      | t:sched_switch           | !args[0] && (uint32_t)arg3 == 0 | 1
    idlethread     | t:sched_switch           | args[2]->pid == 0 | 1
    intr           | t:irq_handler_entry      | | 1
    trap           | t:page_fault_user        | | 1
    trap           | t:page_fault_kernel      | | 1
    sysread        | e:ksys_read              | | 1
    sysread        | e:ksys_pread64           | | 1
    sysread        | e:do_readv               | | 1
    sysread        | e:do_preadv              | | 1
    syswrite       | e:ksys_write             | | 1
    syswrite       | e:ksys_pwrite64          | | 1
    syswrite       | e:do_writev              | | 1
    syswrite       | e:do_pwritev             | | 1
    readch         | r:ksys_read              | (int64_t)arg1 > 0 | arg1
    readch         | r:ksys_pread64           | (int64_t)arg1 > 0 | arg1
    readch         | r:do_readv               | (int64_t)arg1 > 0 | arg1
    readch         | r:do_preadv              | (int64_t)arg1 > 0 | arg1
    writech        | r:ksys_write             | (int64_t)arg1 > 0 | arg1
    writech        | r:ksys_pwrite64          | (int64_t)arg1 > 0 | arg1
    writech        | r:do_writev              | (int64_t)arg1 > 0 | arg1
    writech        | r:do_pwritev             | (int64_t)arg1 > 0 | arg1
    sysexec        | e:do_execveat_common*    | | 1
    sysfork        | e:kernel_clone           | {_PROCESS} && (args[0]->flags & 0x4000) == 0 | 1
    sysvfork       | e:kernel_clone           | {_PROCESS} && (args[0]->flags & 0x4000) != 0 | 1
    namei          | e:path_openat            | | 1
    namei          | e:filename_lookup        | | 1
    namei          | e:__filename_parentat    | | 1
    modload        | t:module_load            | | 1
    modunload      | t:module_free            | | 1
    xcalls         | e:native_send_call_func_single_ipi | | 1
    xcalls         | e:native_send_call_func_ipi | | processors_in[(struct cpumask *)arg0]
    mutex_adenters | t:contention_begin       | ((uint32_t)arg1 & 32) != 0 | 1
    rw_rdfails     | t:contention_begin       | ((uint32_t)arg1 & 2) != 0 | 1
    rw_wrfails     | t:contention_begin       | ((uint32_t)arg1 & 4) != 0 | 1
""")
NOT_SEEN = {
    **dict.fromkeys(("bawrite", "bread", "bwrite", "lread", "lwrite", "phread", "phwrite"), "Linux has no such cache"),
    **dict.fromkeys(("canch", "rawch", "outch", "mdmint", "rcvint", "xmtint"), "it is of Solaris' terminals"),
    **dict.fromkeys(
        ("cpumigrate", "idlepercent", "intrblk", "intrthread", "nthreads", "procovf", "rw_enters"),
        "Linux has no such counter",
    ),
    **dict.fromkeys(("msg", "sema", "ufsdirblk", "ufsiget", "ufsinopage", "ufsipage"), "it is of Solaris' own"),
}


def probes(target: HasKernel, description: Description) -> Iterator[KernelProbe]:
    """The probes of the table."""
    return table.probes("sysinfo", _ROWS, target, description)
