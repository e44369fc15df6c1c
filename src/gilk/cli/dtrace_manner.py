# SPDX-License-Identifier: LGPL-2.1-or-later
"""The mode of ``gilk dtrace``: what it is to do with its programs."""

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
    """``output``: of -o. ``emit``: -S. ``verbose``: -v. ``testing``: without numbers that differ from run to run.
    ``as_json``: of --json."""

    mode: Mode = Mode.RUN
    output: Path | None = None
    emit: bool = False
    verbose: bool = False
    testing: bool = False
    as_json: bool = False

    @property
    def as_table(self) -> bool:
        """Events become rows of a Parquet file."""
        return self.mode is Mode.RUN and self.output is not None and self.output.suffix == ".parquet"
