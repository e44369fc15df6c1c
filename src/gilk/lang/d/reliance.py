# SPDX-License-Identifier: LGPL-2.1-or-later
"""The stability of a program and of probes, and the variables that can be read at these, which -v shows."""

from __future__ import annotations

from gilk.lang.d.probes import Description
from gilk.lang.d.stability import Attributes
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class ReadableLocal:
    """A variable that can be read at ``places`` of the ``of`` places at which a probe fires. ``function``: the function
    inlined there whose variable it is, "" for the one around. ``type``: the type's name."""

    function: str
    name: str
    type: str
    places: int
    of: int

    @property
    def shown(self) -> str:
        """The variable as programs name it."""
        return f"local`{self.function}`{self.name}" if self.function else f"local`{self.name}"


@dataclass(frozen=True, slots=True)
class ProbeStability:
    """The stability of a probe. ``types``: the types of args[]. ``locals``: the variables of functions that can be
    read there, if they were looked for. ``early``: of a probe at returns, the reasons why it fires at jumps after which
    the call may go on."""

    description: Attributes
    arguments: Attributes
    types: tuple[str, ...]
    locals: tuple[ReadableLocal, ...] = ()
    early: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgramStability:
    """The stability of a program: the lowest of all its probe descriptions, the lowest of all its statements, and
    ``each`` description in the order of the text.
    """

    descriptions: Attributes
    statements: Attributes
    each: tuple[tuple[Description, ProbeStability], ...] = ()
