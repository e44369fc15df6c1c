# SPDX-License-Identifier: LGPL-2.1-or-later
"""Shortens the keys of aggregations to the length that their strings can have, so that a name of 16 bytes is not hashed
as one of 256.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from gilk.lang import ir
from gilk.lang.d import tree
from gilk.lang.data import Aggregation, Kind
from gilk.lang.walk import walk

Longest = Callable[[ir.Expression], int]


def narrowed(program: tree.Program, longest: Longest) -> tree.Program:
    """The program with shorter keys. ``longest``: the bytes that a string takes at most, a multiple of 8."""
    used = list(_uses(clause.function for clause in program.clauses))
    short = {one.number: _short(one, used, longest) for one in program.aggregations}
    clauses = tuple(replace(one, function=_function(one.function, short)) for one in program.clauses)
    return replace(program, clauses=clauses, aggregations=tuple(short.values()))


def _uses(functions: Iterable[ir.Function]) -> Iterator[ir.Aggregate]:
    return (node for function in functions for node in walk(function) if isinstance(node, ir.Aggregate))


def _short(one: Aggregation, used: list[ir.Aggregate], longest: Longest) -> Aggregation:
    mine = [each.keys for each in used if each.aggregation.number == one.number]
    at, laid = 0, []
    for place, datum in enumerate(one.recorded):
        strings = datum.kind is Kind.STRING
        size = max((longest(keys[place]) for keys in mine), default=datum.size) if strings else datum.size
        step = datum.size if datum.kind is Kind.INT else 8
        at = -(-at // step) * step
        laid.append(replace(datum, offset=at, size=size))
        at += size
    processor = laid.pop(0) if one.processor is not None else None
    return replace(one, keys=tuple(laid), processor=processor, key_size=at + 7 & -8)


def _function(function: ir.Function, short: dict[int, Aggregation]) -> ir.Function:
    return replace(function, body=_statements(function.body, short))


def _statements(body: tuple[ir.Statement, ...], short: dict[int, Aggregation]) -> tuple[ir.Statement, ...]:
    return tuple(_statement(one, short) for one in body)


def _statement(one: ir.Statement, short: dict[int, Aggregation]) -> ir.Statement:
    match one:
        case ir.If(then=then, otherwise=otherwise):
            return replace(one, then=_statements(then, short), otherwise=_statements(otherwise, short))
        case ir.Aggregate(aggregation=aggregation):
            return replace(one, aggregation=short[aggregation.number])
    return one
