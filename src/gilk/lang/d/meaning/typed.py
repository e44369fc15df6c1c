# SPDX-License-Identifier: LGPL-2.1-or-later
"""The form of a clause between two passes: every expression has a type, but no record is laid out yet."""

from __future__ import annotations

from typing import TypeAlias

from gilk.lang import ir
from gilk.lang.d import ast, items
from gilk.lang.d.meaning.functions import Callable_
from gilk.lang.d.stability import USUAL, Attributes
from gilk.lang.syntax.source import Span
from gilk.values import dataclass

#: An argument of a call; aggregations have no value.
Argument: TypeAlias = ir.Expression | ast.Aggregate


@dataclass(frozen=True, slots=True)
class Evaluation:
    span: Span
    value: ir.Expression


@dataclass(frozen=True, slots=True)
class Action:
    """An action. ``arguments`` has an element for each argument of the call, as it was given."""

    call: ast.Call
    known: Callable_
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregation ``@target[keys] = call(arguments)``."""

    assign: ast.Assign
    target: ast.Aggregate
    call: ast.Call
    keys: tuple[ir.Expression, ...]
    arguments: tuple[ir.Expression, ...]


@dataclass(frozen=True, slots=True)
class If:
    test: ir.Expression
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]


Statement: TypeAlias = Evaluation | Action | AggregateCall | If


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause. ``statements`` is None if the default action is taken. ``attributes``: the lowest of all
    that it uses.
    """

    item: items.Clause
    probes: tuple[str, ...]
    test: ir.Expression | None
    statements: tuple[Statement, ...] | None
    attributes: Attributes = USUAL
