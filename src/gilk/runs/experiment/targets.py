# SPDX-License-Identifier: LGPL-2.1-or-later
"""The preparation of an experiment's run: targets are attached to or launched, and no probe is in yet."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterator

from gilk.errors import GilkError, TargetError
from gilk.runs.elsewhere import Elsewhere
from gilk.runs.experiment import workload as experiment_workload
from gilk.runs.experiment.file import Experiment
from gilk.runs.experiment.run import Staged
from gilk.runs.experiment.workload import Workload
from gilk.targets import process
from gilk.targets.kernel.target import KernelTarget
from gilk.targets.process import Process
from gilk.targets.program import program_name
from gilk.targets.selecting import named, processes
from gilk.trace import destination


def prepare(
    experiment: Experiment, number: int = 1, kernel: KernelTarget | None = None, elsewhere: Elsewhere | None = None
) -> Staged:
    """The run for repetition ``number``. ``elsewhere``: the machine that has ``kernel``. Raises GilkError; then
    everything is let go."""
    held: list[Process] = []
    workload = None
    try:
        destination.check(experiment.output_of(number))
        held += [process.attach(pid) for pid in pids(experiment)]
        if experiment.workload is not None and elsewhere is None:
            as_target = "workload" in experiment.targets
            workload = experiment_workload.launch(experiment.workload) if as_target else Workload(experiment.workload)
    except BaseException:
        for one in held:
            with contextlib.suppress(GilkError):
                one.close()
        if elsewhere is not None:
            elsewhere.close()
        raise
    processes = [*held, *(workload.held if workload else ())]
    command = _command(experiment, elsewhere is not None)
    names = {each.pid: program_name(each.pid) for each in processes}
    return Staged(
        processes, [], experiment.output_of(number), command, kernel, elsewhere, experiment.mode == "flight",
        items=list(experiment.items), names=names, workload=workload, unattended=True,
    )  # fmt: skip


def _command(experiment: Experiment, elsewhere: bool) -> tuple[str, ...]:
    """The command for the file's description; on another machine, the command to run there."""
    if experiment.workload is None:
        return ()
    if elsewhere:
        return "sh", "-c", experiment_workload.script(experiment.workload)
    try:
        return tuple(shlex.split(experiment.workload.command))
    except ValueError:  # a shell may be able to read it
        return (experiment.workload.command,)


def pids(experiment: Experiment) -> Iterator[int]:
    """The pids of the running processes among the targets, each once. Raises TargetError `no-such-process`."""
    seen: set[int] = set()
    for target in experiment.targets:
        kind, _, name = target.partition(":")
        found = [int(name)] if kind == "pid" else _called(name) if kind == "name" else []
        if kind == "name" and not found:
            raise TargetError("no-such-process", f"no process is called {name!r}")
        yield from (pid for pid in found if pid not in seen)
        seen.update(found)


def _called(glob: str) -> list[int]:
    """The pids of processes that the user may look into and whose program, or own name, matches; never gilk's own."""
    own = {os.getpid(), os.getppid()}
    return sorted(named(processes(), glob) - own)
