# SPDX-License-Identifier: LGPL-2.1-or-later
"""An arena at work: what is linked for it, and what lies in it once for all who need it."""

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
    """``held_next``: where the data of the next instrument goes."""

    arena: Arena
    host: Host
    held_next: int
    linked: dict[tuple[str, str], Linked] = field(default_factory=dict)  # by source and function
    words: dict[int, int] = field(default_factory=dict)  # where addresses are written down
    texts: dict[str, int] = field(default_factory=dict)  # where strings lie
    #: By identity of the advice, which is held for as long as its identity is to mean something.
    accessed: dict[int, tuple[CompiledAdvice, AccessAdvice]] = field(default_factory=dict)
