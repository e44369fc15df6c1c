# SPDX-License-Identifier: LGPL-2.1-or-later
"""The compiler's view of processes. It asks only when the program names something of a process."""

from __future__ import annotations

from typing import Protocol

from gilk.lang.types import Record, Type
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol. ``type`` is None if it is not known. ``code``: it is a function, whose value is its address.
    ``by_processor``: it is a per-CPU variable of the kernel, at ``address`` bytes from the beginning of each CPU's
    area.
    """

    address: int
    type: Type | None
    code: bool = False
    by_processor: bool = False


@dataclass(frozen=True, slots=True)
class LocalVariable:
    """A variable of functions at the probes of a description. ``types``: its different types, where it can be had.
    ``in_memory``: it lies in memory at some of the probes; ``is_value``: its value can be had otherwise at some.

    Without types, ``why`` is the reason why it cannot be had, with a ``hint``; ``declared``: it is in scope.
    """

    types: tuple[Type, ...] = ()
    in_memory: bool = False
    is_value: bool = False
    declared: bool = False
    why: str = ""
    hint: str = ""


class World(Protocol):
    """The processes or the kernel that a program is about. ``module`` is the name of an image, perhaps with the number
    of a process and a backquote before it; "" is any image.
    """

    @property
    def in_kernel(self) -> bool:
        """Whether clauses run in a kernel, where they can use what only a kernel has."""
        ...

    def type(self, module: str, kind: str, name: str) -> Type | None:
        """The type of that name, or None. ``kind``: struct, union, enum, or "" for a type with a name of its own."""
        ...

    def completed(self, record: Record) -> Record:
        """The complete type of a record with an origin, of which only the name was known."""
        ...

    def symbol(self, module: str, name: str) -> Symbol | None: ...

    def arguments(self, probe: str) -> tuple[tuple[Type, int | None], ...] | None:
        """The types of the arguments of the probes of that description. Each comes with the n of the argn that holds
        it, or None if none does. The result is None if nothing is known.
        """
        ...

    def foreign(self, probe: str) -> str:
        """The language of the functions of that description, if their parameters are not passed as C's are; otherwise
        "".
        """
        ...

    def local(self, probe: str, function: str, name: str) -> LocalVariable | None:
        """The variable of that name in scope at the probes of that description: one of the function in which they lie,
        or of ``function``, if that is inlined there. None if no probe matches yet.
        """
        ...

    def provider(self, name: str) -> bool:
        """Whether there is a provider of that name."""
        ...

    def module(self, name: str) -> bool:
        """Whether there is an image of that name whose types are known."""
        ...


class Nothing:
    """The world of a program without processes and providers."""

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

    def local(self, probe: str, function: str, name: str) -> LocalVariable | None:
        return LocalVariable(why="there is no process")

    def provider(self, name: str) -> bool:
        return False

    def module(self, name: str) -> bool:
        return False
