# SPDX-License-Identifier: LGPL-2.1-or-later
"""The functions of a kernel that advice must not replace, because the kernel fails if one of them does not do its work.

The driver refuses further functions, in which no probe at all may be.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from gilk.image.kernel.kallsyms import KernelSymbols
from gilk.session.places import FunctionView

#: Symbols at the start and the end of code that must not be replaced, and the reason.
_SECTIONS = (
    ("__sched_text_start", "__sched_text_end", "it schedules"),
    ("__lock_text_start", "__lock_text_end", "it locks"),
    ("__irqentry_text_start", "__irqentry_text_end", "interrupts come by there"),
    ("__softirqentry_text_start", "__softirqentry_text_end", "interrupts come by there"),
)
#: Further functions by globs of their names. It is better to have too many than too few.
_NAMES = {
    "it locks": "*_lock *_lock_* *_unlock *_unlock_* *_trylock* mutex_* down_* up_* *_acquire *_release lockref_* "
    "refcount_* kref_*",
    "it is of RCU": "rcu_* *_rcu *_rcu_* srcu_* *synchronize_*",
    "it schedules": "sched_* schedule* __schedule* try_to_wake_up* wake_up_* default_wake_function "
    "finish_task_switch* *task_fair *task_rt *task_dl update_rq_clock* scheduler_* context_switch*",
    "the kernel's memory depends on it": "kfree* vfree* __free_page* free_pages* put_page* __put_page* *_unmap "
    "*_unmap_*",
}


def why_not_replaced(view: FunctionView, symbols: KernelSymbols) -> str:
    """The reason why advice must not replace a function; empty if it may."""
    for low, high, why in _SECTIONS:
        start, end = symbols.find(low), symbols.find(high)
        if start is not None and end is not None and start <= view.address < end:
            return why
    names = (view.name, *view.function.aliases)
    for why, globs in _NAMES.items():
        if any(fnmatchcase(name.partition(".")[0], glob) for name in names for glob in globs.split()):
            return why
    return ""
