# SPDX-License-Identifier: LGPL-2.1-or-later
"""This machine: its processor and compiler, the directories where gilk keeps what it makes, and its own work."""

from __future__ import annotations

from gilk.arch.processor import flags as processor_flags
from gilk.cache.place import intended as cache_place
from gilk.private import complaints
from gilk.targets import trials
from gilk.targets.own_time import own_time
from gilk.targets.status import status_of
from gilk.toolchain.compilers import compiler
from gilk.toolchain.runtime_file import SHIPPED

__all__ = ["cache_place", "compiler", "complaints", "has_runtime", "own_time", "processor_flags", "status_of", "trials"]


def has_runtime() -> bool:
    """Whether gilk's runtime came compiled, with the package."""
    return SHIPPED.exists()
