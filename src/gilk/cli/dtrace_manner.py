# SPDX-License-Identifier: LGPL-2.1-or-later
"""The mode of ``gilk dtrace``, which says what the command does with its programs, and the form of its output."""

from __future__ import annotations

from enum import Enum, auto
from pathlib import Path

from gilk.values import dataclass


class Mode(Enum):
    RUN = auto()
    COMPILE = auto()  # -e
    LIST = auto()  # -l
    HEADER = auto()  # -h
    LINK = auto()  # -G


@dataclass(frozen=True)
class Manner:
    """How ``gilk dtrace`` carries out programs, and how it prints. ``output`` is the file of -o; ``emit`` is -S,
    ``verbose`` -v and ``as_json`` --json. ``testing`` leaves out numbers that differ from run to run."""

    mode: Mode = Mode.RUN
    output: Path | None = None
    emit: bool = False
    verbose: bool = False
    testing: bool = False
    as_json: bool = False

    @property
    def as_table(self) -> bool:
        """Whether events are written as rows of a Parquet file."""
        return self.mode is Mode.RUN and self.output is not None and self.output.suffix == ".parquet"
