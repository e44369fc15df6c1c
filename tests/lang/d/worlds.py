# SPDX-License-Identifier: LGPL-2.1-or-later
"""A stand-in for a process whose types and symbols tests can ask for."""

from __future__ import annotations

from gilk.lang.d.meaning.world import LocalVariable, Nothing, Symbol
from gilk.lang.types import INT, VOID, Float, Member, Pointer, Record, Type

THING = Record("struct", "thing", "lib:1", 8, 4, (Member("a", INT, 0), Member("b", INT, 4)))
NAMED = Record("struct", "thing", "lib:1", complete=False)


class Known(Nothing):
    """A world with known names; ``asked`` are the names that it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def type(self, module: str, kind: str, name: str) -> Type | None:
        self.asked.append(name)
        known = {("struct", "thing"): THING, ("", "thing_t"): THING, ("", "link_t"): Pointer(NAMED)}
        return known.get((kind, name)) if module in ("", "lib", "1`lib") else None

    def completed(self, record: Record) -> Record:
        return THING if record == NAMED else record

    def symbol(self, module: str, name: str) -> Symbol | None:
        self.asked.append(name)
        known = {"untyped": Symbol(16, None), "number": Symbol(16, INT), "f": Symbol(32, None, code=True)}
        return known.get(name) if module in ("", "lib", "a.out") else None

    def arguments(self, probe: str) -> tuple[tuple[Type, int | None], ...] | None:
        self.asked.append(probe)
        if not probe.startswith("pid1:"):
            return None
        return ((Pointer(NAMED), 0), (Float("double", 8), None), (VOID, 1)) if "entry" in probe else ((INT, 0),)

    def foreign(self, probe: str) -> str:
        return "Go" if probe.startswith("pid2:") else ""

    def local(self, probe: str, function: str, name: str) -> LocalVariable | None:
        if name == "k":
            return LocalVariable((INT,) if ":f:" in probe else (Pointer(INT),), is_value=True, declared=True)
        return LocalVariable(declared=name == "lost", why="not here")

    def provider(self, name: str) -> bool:
        return name == "pid"

    def module(self, name: str) -> bool:
        return name == "lib"
