# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``proc`` of a kernel: processes and threads that begin, execute programs, get signals and end. Types:
library/kernel/proc.d."""

from __future__ import annotations

from collections.abc import Iterator

from gilk.lang.d.probes import Description
from gilk.providers.kernel import table
from gilk.providers.kernel.probe import HasKernel, KernelProbe

#: The reason for an exit by its code: CLD_DUMPED with the core bit, CLD_KILLED with a signal, else CLD_EXITED.
_HOW = "args[0]->exit_code & 0x80 ? 3 : args[0]->exit_code & 0x7f ? 2 : 1"
# Only do_exit() knows which thread is the last one: by the time of sched_process_exit, several may be (kernel/exit.c).
_HANDLER = "(uint64_t)args[2]->sa.sa_handler"  # 0 and 1 are SIG_DFL and SIG_IGN
_ROWS = table.rows(f"""
    create         | t:sched_process_fork | args[1]->tgid == args[1]->pid         | args[1]
    lwp-create     | t:sched_process_fork |                                       | args[1]; args[1]
    start          | e:schedule_tail      | tid == pid                            |
    lwp-start      | e:schedule_tail      |                                       |
    exec           | e:bprm_execve        |                                       | args[2]->name
    exec-success   | t:sched_process_exec |                                       |
    exec-failure   | r:bprm_execve        | (int)arg1 < 0                         | -(int)arg1
    exit           | e:taskstats_exit     | (int)arg1 != 0                        | {_HOW}
    lwp-exit       | t:sched_process_exit |                                       |
    signal-send    | t:signal_generate    | (int)arg4 == 0                        | args[2]; args[2]; (int)arg0
    signal-discard | t:signal_generate    | (int)arg4 == 1                        | args[2]; args[2]; (int)arg0
    signal-handle  | t:signal_deliver     | {_HANDLER} > 1 | (int)arg0; args[1]; {_HANDLER}
    signal-clear   | r:do_sigtimedwait    | (int)arg1 > 0                         | (int)arg1
""")
NOT_SEEN = {
    "fault": "it is Solaris' own",
}


def probes(target: HasKernel, description: Description) -> Iterator[KernelProbe]:
    """The probes of the table."""
    return table.probes("proc", _ROWS, target, description)
