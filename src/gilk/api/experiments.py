# SPDX-License-Identifier: LGPL-2.1-or-later
"""Experiments: runs that a file describes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gilk.errors import StoreError
from gilk.outputs import replacing
from gilk.render.report import RunReport
from gilk.runs.experiment import edit, file, targets
from gilk.runs.experiment.file import Experiment
from gilk.runs.experiment.run import Staged
from gilk.runs.kernels import kernel_of

__all__ = [
    "Experiment", "Staged", "edit", "load_experiment", "outcome", "parse_experiment", "prepare_experiment",
    "running_targets", "save_experiment",
]  # fmt: skip


def load_experiment(path: str | Path) -> Experiment:
    """Raises UsageError `bad-experiment`, and what is wrong with its points."""
    return file.load(Path(path))


def prepare_experiment(experiment: Experiment, number: int = 1) -> Staged:
    """Repetition ``number``: attached and launched, with nothing put in yet. Raises GilkError."""
    wanted = [item.wanted for item in experiment.items]
    return targets.prepare(experiment, number, *kernel_of(wanted, False, experiment.machine))


def running_targets(experiment: Experiment) -> list[int]:
    """The pids of the running processes among its targets, as of now. Raises TargetError `no-such-process`."""
    return list(targets.pids(experiment))


def parse_experiment(text: str, path: Path) -> Experiment:
    """The experiment that a file of this name would describe if it had that text: nothing is read, and no code of the
    user's executed. Raises UsageError `bad-experiment`, `own-code`, and what is wrong with its points."""
    return file.parse(text, path, own_code=False)


def save_experiment(path: Path, text: str) -> None:
    """Write the file, whole or not at all. Raises StoreError `cannot-write`."""
    try:
        with replacing(path) as made:
            made.write(text.encode())
    except OSError as error:
        raise StoreError("cannot-write", f"{path}: {error.strerror}") from None


def outcome(running: Staged, report: RunReport) -> dict[str, Any]:
    """A repetition's report, what happened when, and how its workload ended."""
    workload = running.workload or running.elsewhere
    status = workload.status if workload else None
    return {**report.to_json(), **running.happened(), "workload_status": status}
