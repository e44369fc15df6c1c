# SPDX-License-Identifier: LGPL-2.1-or-later
"""The things that clauses of one D program have to agree about where it is compiled more than once."""

from __future__ import annotations

from gilk.lang.d import tree
from gilk.lang.to_c.functions import RecordPart
from gilk.lang.types import size_of


def shape_of(program: tree.Program, parts: tuple[RecordPart, ...]) -> object:
    """The places of everything in the memory, and in records: the same each time, or their clauses would take one
    thing for another."""
    variables = [
        (one.name, one.scope, one.offset, one.number, size_of(one.type, program.strsize),
         [size_of(key, program.strsize) for key in one.keys or ()])
        for one in program.variables
    ]  # fmt: skip
    sizes = program.globals_size, program.this_size, program.strsize
    return variables, sizes, program.aggregations, parts
