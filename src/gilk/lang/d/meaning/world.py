# SPDX-License-Identifier: LGPL-2.1-or-later
"""The program's view of processes, as far as its compiler has to know it. It is asked only when the program names
something of it."""

from __future__ import annotations

from typing import Protocol

from gilk.lang.types import Record, Type
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class Symbol:
    """``type`` is None where nothing is known of it; ``code``: a function, whose value is its address.
    ``by_processor``: every processor of a kernel has one, ``address`` bytes behind where its own begin."""

    address: int
    type: Type | None
    code: bool = False
    by_processor: bool = False


class World(Protocol):
    """``module`` is an image's name, with the number of a process and a backquote before it perhaps; "" is any."""

    @property
    def in_kernel(self) -> bool:
        """Whether clauses run in a kernel, and can ask for what only a kernel has."""
        ...

    def type(self, module: str, kind: str, name: str) -> Type | None:
        """``kind``: struct, union, enum, or "" of what has a name of its own."""
        ...

    def completed(self, record: Record) -> Record:
        """One with an origin, of which only the name was known."""
        ...

    def symbol(self, module: str, name: str) -> Symbol | None: ...

    def arguments(self, probe: str) -> tuple[tuple[Type, int | None], ...] | None:
        """Types of what the probes of that description give, each with the n of the argn that it is, if it is one.
        None where nothing is known.
        """
        ...

    def foreign(self, probe: str) -> str:
        """The language of the functions of that description, if its parameters are not passed as C's are; else ""."""
        ...

    def provider(self, name: str) -> bool:
        """Whether there is one of that name."""
        ...

    def module(self, name: str) -> bool:
        """Whether there is an image of that name, and its types are known."""
        ...


class Nothing:
    """No process, and no providers."""

    in_kernel = False

    def type(self, module: str, kind: str, name: str) -> Type | None:
        return None

    def completed(self, record: Record) -> Record:
        return record

    def symbol(self, module: str, name: str) -> Symbol | None:
        return None

    def arguments(self, probe: str) -> tuple[tuple[Type, int | None], ...] | None:
        return None

    def foreign(self, probe: str) -> str:
        return ""

    def provider(self, name: str) -> bool:
        return False

    def module(self, name: str) -> bool:
        return False
