# SPDX-License-Identifier: LGPL-2.1-or-later
"""An arena in use: the instruments linked for it, and the words and strings that are stored in it once for all uses."""

from __future__ import annotations

from dataclasses import field

from gilk.splice.access import AccessAdvice
from gilk.splice.allocator import Arena
from gilk.splice.host import Host
from gilk.toolchain.advice import CompiledAdvice
from gilk.toolchain.instrument import Linked
from gilk.values import dataclass

LINE = 64  # bytes


@dataclass
class ArenaSite:
    """An arena in use. ``held_next``: the address for the data of the next instrument."""

    arena: Arena
    host: Host
    held_next: int
    linked: dict[tuple[str, str], Linked] = field(default_factory=dict)  # by source and function
    words: dict[int, int] = field(default_factory=dict)  # by address: the place where it is stored
    texts: dict[str, int] = field(default_factory=dict)  # by string: the place where it is stored
    #: By id() of the advice, which is kept here so that its id() stays its own.
    accessed: dict[int, tuple[CompiledAdvice, AccessAdvice]] = field(default_factory=dict)
