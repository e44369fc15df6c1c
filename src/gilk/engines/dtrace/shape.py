# SPDX-License-Identifier: LGPL-2.1-or-later
"""The layout on which the clauses of one D program have to agree if it is compiled more than once."""

from __future__ import annotations

from dataclasses import replace

from gilk.lang.d import tree
from gilk.lang.to_c.functions import RecordPart
from gilk.lang.types import size_of


def shape_of(program: tree.Program, parts: tuple[RecordPart, ...]) -> object:
    """A value that is equal if all variables, records and aggregations lie at the same places.

    If it differs, clauses would take one thing for another.
    """
    variables = [
        (one.name, one.scope, one.offset, one.number, size_of(one.type, program.strsize),
         [size_of(key, program.strsize) for key in one.keys or ()])
        for one in program.variables
    ]  # fmt: skip
    sizes = program.globals_size, program.this_size, program.strsize
    return variables, sizes, program.aggregations, tuple(map(_shape_of_record, parts))


def _shape_of_record(part: RecordPart) -> object:
    """The record without the expressions of its values, only with their types: addresses of symbols, and places of
    variables, may be others in each process."""
    actions = [(replace(one, values=()), [value.type for value in one.values]) for one in part.actions]
    return part.epid, part.clause, part.size, actions
