# SPDX-License-Identifier: LGPL-2.1-or-later
"""How far one may rely on a program and on probes, as -v tells."""

from __future__ import annotations

from gilk.lang.d.probes import Description
from gilk.lang.d.stability import Attributes
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class ProbeStability:
    """``types``: of args[]."""

    description: Attributes
    arguments: Attributes
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProgramStability:
    """The lowest of all its probe descriptions, and of all its statements; and ``each`` description in the order of the
    text."""

    descriptions: Attributes
    statements: Attributes
    each: tuple[tuple[Description, ProbeStability], ...] = ()
