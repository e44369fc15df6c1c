# SPDX-License-Identifier: LGPL-2.1-or-later
"""The conditions and arguments in the tables of a kernel's providers, compiled as a program's clauses are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any

from gilk.engines.dtrace import libraries
from gilk.engines.dtrace.compiled import DoesNotCompile, ProgramText, compile_programs
from gilk.lang import ir
from gilk.lang.d.macros import Macros
from gilk.lang.d.meaning.world import World
from gilk.lang.d.options import Options
from gilk.lang.syntax.source import Source
from gilk.lang.walk import walk
from gilk.providers.kernel.probe import ProviderRow

_OWN_VARIABLES = 1 << 30  # the first number of variables of tables; a program's variables have lower numbers


def givens(rows: Iterable[ProviderRow], world: World) -> dict[ProviderRow, ir.Given]:
    """The condition and arguments of each row; a row about types that the kernel does not have is left out."""
    known = list(dict.fromkeys(rows))
    try:
        return _compiled(known, world)
    except DoesNotCompile:
        found: dict[ProviderRow, ir.Given] = {}
        for row in known:
            with suppress(DoesNotCompile):
                found.update(_compiled([row], world))
        return found


def _compiled(rows: Sequence[ProviderRow], world: World) -> dict[ProviderRow, ir.Given]:
    """The condition and arguments of each row, if all rows compile. Raises DoesNotCompile."""
    if not rows:
        return {}
    text = "\n".join(map(_clause, rows))
    table = ProgramText("table", Source("table", text))
    own = libraries.wanted([text], (), None, libraries.OF_KERNELS, world)
    program = compile_programs([table], Macros({}, ("table",)), Options(), world, own).program
    return {row: _apart(_given(clause.function)) for row, clause in zip(rows, program.clauses, strict=True)}


def keeps(given: ir.Given) -> bool:
    """Whether the row has variables of its own, which need memory."""
    parts = (part for part in (*given.arguments, given.condition) if part is not None)
    return any(isinstance(node, ir.Keyed) for part in parts for node in walk(part))


def _apart(node: Any) -> Any:
    """The node with its variables renumbered, so that they differ from any program's variables."""
    if isinstance(node, tuple):
        return tuple(map(_apart, node))
    if type(node).__module__ != ir.__name__:
        return node
    parts = {each.name: _apart(getattr(node, each.name)) for each in fields(node)}
    if isinstance(node, ir.Keyed):
        parts["variable"] += _OWN_VARIABLES
    return type(node)(**parts)


def _clause(row: ProviderRow) -> str:
    condition = f" /{row.condition}/" if row.condition else ""
    return f"{row.at}{condition} {{ {' '.join(f'trace((int64_t)({each}));' for each in row.arguments)} }}"


def _given(function: ir.Function) -> ir.Given:
    traced = (one.values[0] for one in function.body if isinstance(one, ir.Data) and one.values)
    return ir.Given(tuple(traced), condition=function.guard)
