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
    """The experiment that the file describes. Raises UsageError `bad-experiment`, and the errors of its points."""
    return file.load(Path(path))


def prepare_experiment(experiment: Experiment, number: int = 1) -> Staged:
    """Attach to the processes of an experiment, and launch its workload, for repetition ``number``; no probe is in yet.
    Raises GilkError."""
    wanted = [item.wanted for item in experiment.items]
    return targets.prepare(experiment, number, *kernel_of(wanted, False, experiment.machine))


def running_targets(experiment: Experiment) -> list[int]:
    """The pids of those targets of the experiment that run at the moment. Raises TargetError `no-such-process`."""
    return list(targets.pids(experiment))


def parse_experiment(text: str, path: Path) -> Experiment:
    """The experiment that a file of this name would describe if ``text`` were its content.

    No file is read, and no code of the user's is executed. Raises UsageError `bad-experiment`, `own-code`, and the
    errors of its points.
    """
    return file.parse(text, path, own_code=False)


def save_experiment(path: Path, text: str) -> None:
    """Write ``text`` to the file; if that fails, the old file stays. Raises StoreError `cannot-write`."""
    try:
        with replacing(path) as made:
            made.write(text.encode())
    except OSError as error:
        raise StoreError("cannot-write", f"{path}: {error.strerror}") from None


def outcome(running: Staged, report: RunReport) -> dict[str, Any]:
    """A repetition's report as JSON values, with the times of what happened in it, and its workload's exit status."""
    workload = running.workload or running.elsewhere
    status = workload.status if workload else None
    return {**report.to_json(), **running.happened(), "workload_status": status}
