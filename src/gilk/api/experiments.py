# SPDX-License-Identifier: LGPL-2.1-or-later
"""Experiments: runs that a file describes."""

from __future__ import annotations

from pathlib import Path

from gilk.api.kernels import kernel_of
from gilk.runs.experiment import file, targets
from gilk.runs.experiment.file import Experiment
from gilk.runs.experiment.run import Staged

__all__ = ["Experiment", "Staged", "load_experiment", "prepare_experiment"]


def load_experiment(path: str | Path) -> Experiment:
    """Raises UsageError `bad-experiment`, and what is wrong with its points."""
    return file.load(Path(path))


def prepare_experiment(experiment: Experiment, number: int = 1) -> Staged:
    """Repetition ``number``: attached and launched, with nothing put in yet. Raises GilkError."""
    wanted = [item.wanted for item in experiment.items]
    return targets.prepare(experiment, number, *kernel_of(wanted, False, experiment.machine))
