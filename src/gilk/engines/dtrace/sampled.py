# SPDX-License-Identifier: LGPL-2.1-or-later
"""The probes of a program that samples of processors fire: those that count events, ``profile-N`` without a process,
and others by the clock whose clauses ask for what only a sample tells."""

from __future__ import annotations

from gilk.engines.dtrace.enabling import Enabled
from gilk.lang import ir
from gilk.lang.d import tree
from gilk.lang.d.probes import DProbe
from gilk.lang.facts import Facts, facts
from gilk.lang.runtime import Does
from gilk.lang.walk import walk
from gilk.providers.clock import Tick, counted
from gilk.targets.processor_samples import Counted

#: Variables about the thread that runs.
_WHO = frozenset(("pid", "tid", "ppid", "uid", "gid", "euid", "egid", "execname"))
_WHERE_IN_KERNEL = 0  # the number of the argument that is an address in the kernel


def sampled(program: tree.Program, enabled: Enabled, has_process: bool) -> list[tuple[DProbe, Counted]]:
    """The probes that samples fire, each with the event that is to be counted."""
    clauses = {clause.number: clause.function for clause in program.clauses}
    found = []
    for probe, tick in enabled.ticks:
        run = [clauses[number] for number in enabled.clauses.get(probe.number, ())]
        event = _event(tick, run, has_process)
        if event is not None:
            found.append((probe, event))
    return found


def _event(tick: Tick, run: list[ir.Function], has_process: bool) -> Counted | None:
    if tick.counted is not None and not (tick.samples and has_process):
        return tick.counted
    if tick.samples:
        return tick.counted if _asks_for_the_kernel(run) else None
    return counted(tick.period, everywhere=False) if not has_process and any(map(_asks_who_runs, run)) else None


def _asks_who_runs(function: ir.Function) -> bool:
    found = facts(function)
    named = any(isinstance(node, ir.Call) and node.name in _WHO for node in walk(function))
    return named or bool(found.arguments) or bool(found.does & (Does.WALKS | Does.REGISTERS))


def _asks_for_the_kernel(run: list[ir.Function]) -> bool:
    """Whether clauses at ``profile-N`` in a process ask for the address in the kernel, and for nothing that only a
    thread has that stands still: its stack, and its variables."""
    found: list[Facts] = [facts(each) for each in run]
    if any(each.does & Does.WALKS for each in found):
        return False
    own = any(isinstance(node, ir.Keyed) and node.by_thread for each in run for node in walk(each))
    return not own and any(_WHERE_IN_KERNEL in each.arguments for each in found)
