# SPDX-License-Identifier: LGPL-2.1-or-later
"""The provider ``sched``: tasks that get a processor, lose it, wait for it, and are woken. Types:
library/kernel/sched.d."""

from __future__ import annotations

from collections.abc import Iterator

from gilk.lang.d.probes import Description
from gilk.providers.kernel import table
from gilk.providers.kernel.probe import HasKernel, KernelProbe

_CHANGES = "args[0]; args[0]"
_ROWS = table.rows(f"""
    off-cpu   | t:sched_switch          |                                       | args[2]; args[2]
    sleep     | t:sched_switch          | !args[0] && (uint32_t)arg3 != 0       |
    preempt   | t:sched_switch          | args[0]                               |
    on-cpu    | e:finish_task_switch*   |                                       |
    wakeup    | t:sched_waking          |                                       | args[0]; args[0]
    enqueue   | e:enqueue_task_fair     |                                       | args[1]; args[1]; args[0]
    enqueue   | e:enqueue_task_rt       |                                       | args[1]; args[1]; args[0]
    enqueue   | e:enqueue_task_dl       |                                       | args[1]; args[1]; args[0]
    enqueue   | e:enqueue_task_stop     |                                       | args[1]; args[1]; args[0]
    dequeue   | e:dequeue_task_fair     |                                       | args[1]; args[1]; args[0]; 0
    dequeue   | e:dequeue_task_rt       |                                       | args[1]; args[1]; args[0]; 0
    dequeue   | e:dequeue_task_dl       |                                       | args[1]; args[1]; args[0]; 0
    dequeue   | e:dequeue_task_stop     |                                       | args[1]; args[1]; args[0]; 0
    change-pri | e:set_user_nice        | args[0]->static_prio - 120 != (int64_t)arg1 | {_CHANGES}; 120 + (int)arg1
    change-pri | e:__sched_setscheduler | args[1]->sched_policy != 6            | {_CHANGES}; new_priority[args[1]]
    change-pri | t:sched_pi_setprio     | args[1] != NULL                       | {_CHANGES}; args[1]->prio
    surrender | e:do_sched_yield        |                                       | curthread; curthread
    tick      | e:scheduler_tick        |                                       | curthread; curthread
""")
NOT_SEEN = {
    "remain-cpu": "it takes two places of one function together",
    **dict.fromkeys(("schedctl-nopreempt", "schedctl-preempt", "schedctl-yield"), "Linux has no schedctl"),
    **dict.fromkeys(("cpucaps-sleep", "cpucaps-wakeup"), "Linux has no cpucaps"),
}


def probes(target: HasKernel, description: Description) -> Iterator[KernelProbe]:
    """The probes of the table."""
    return table.probes("sched", _ROWS, target, description)
