# SPDX-License-Identifier: LGPL-2.1-or-later
"""The stability of a program and of probes, which -v shows."""

from __future__ import annotations

from gilk.lang.d.probes import Description
from gilk.lang.d.stability import Attributes
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class ProbeStability:
    """The stability of a probe. ``types``: the types of args[]."""

    description: Attributes
    arguments: Attributes
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProgramStability:
    """The stability of a program: the lowest of all its probe descriptions, the lowest of all its statements, and
    ``each`` description in the order of the text.
    """

    descriptions: Attributes
    statements: Attributes
    each: tuple[tuple[Description, ProbeStability], ...] = ()
