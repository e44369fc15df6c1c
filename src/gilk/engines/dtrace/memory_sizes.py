# SPDX-License-Identifier: LGPL-2.1-or-later
"""The sizes of a D program's memory, by its variables and options."""

from __future__ import annotations

import fnmatch

from gilk.lang.d import tree
from gilk.lang.d.options import Options
from gilk.lang.d.probes import described
from gilk.lang.d.unit import GLOBALS_START
from gilk.lang.types import size_of
from gilk.trace.d.layout import PAGE, BufferPolicy
from gilk.trace.d.memory import MemoryOptions as Sizes

_POLICIES = {"switch": BufferPolicy.SWITCH, "fill": BufferPolicy.FILL, "ring": BufferPolicy.RING}
_STRINGS, _STRING_SCRATCH = 16, 64 << 10  # strings that a clause has room for besides, and the most bytes of that
_STACK_SCRATCH = 96 << 10  # bytes for a copy of the stack and for keys with stacks, besides what is asked for
_NOTE = 40  # bytes of key and value of a note about a call (runtime/d/tails.h), the largest variable of gilk's own
_FEW = 8  # variables: of fewer there is room for as many as dynvarsize holds, and else for some more or less


def _scratch(program: tree.Program, options: Options) -> int:
    """The bytes of scratch memory of a clause in a process: those that it may ask for, and room for strings and stacks.
    In a kernel strings lie elsewhere."""
    strings = min(PAGE + _STRINGS * program.strsize, _STRING_SCRATCH)
    return options.number("scratchsize") + strings + (_STACK_SCRATCH if program.stacks else 0)


def _is_return(description: str) -> bool:
    """Whether probes at returns may be meant, for which calls are noted that go on in other functions."""
    return fnmatch.fnmatchcase("return", described(description).name or "*")


def sizes(
    program: tree.Program, options: Options, processors: int, unwind: int = 0, scratches: int = 256, keyed: bool = False
) -> Sizes:  # fmt: skip
    """The sizes of a program's memory, by its options. ``keyed``: code besides the program has keyed variables
    there."""
    keyed |= any(_is_return(text) for clause in program.clauses for text in clause.probes)
    largest, own, dynvarsize = _NOTE if keyed else 16, 1, options.number("dynvarsize")
    for variable in program.variables:
        if variable.scope == "self" or variable.keys is not None:
            keys = sum(-(-size_of(key, program.strsize) // 8) * 8 for key in variable.keys or ())
            value = size_of(variable.type, program.strsize)
            largest, own = max(largest, keys + -(-value // 8) * 8), max(own, keys + value)
    few = max(dynvarsize // own, 1)
    keyed |= any(variable.scope == "self" or variable.keys is not None for variable in program.variables)
    return Sizes(
        processors=processors,
        scratches=scratches,
        bufsize=options.number("bufsize"),
        policy=_POLICIES[options.text("bufpolicy")],
        aggsize=options.number("aggsize"),
        dynvarsize=dynvarsize if keyed else 0,
        largest_variable=largest,
        few_variables=few if keyed and few < _FEW else 0,
        nspec=options.number("nspec"),
        specsize=options.number("specsize"),
        strsize=program.strsize,
        globals_size=GLOBALS_START + program.globals_size,
        aggregations=len(program.aggregations),
        scratchsize=_scratch(program, options) if scratches else options.number("scratchsize"),
        unwind_size=unwind,
    )
