# SPDX-License-Identifier: LGPL-2.1-or-later
"""The state of the passes, besides the values that they transform. Each pass names the fields that it reads
(order.py).
"""

from __future__ import annotations

from dataclasses import field

from gilk.lang.d import tree
from gilk.lang.d.macros import Macros
from gilk.lang.d.meaning.expressions import Expressions
from gilk.lang.d.meaning.pragmas import Pragmas
from gilk.lang.d.meaning.scope import Frames, Scope
from gilk.lang.d.meaning.world import Nothing, World
from gilk.lang.d.options import Options
from gilk.lang.d.stability import Attributes, read
from gilk.lang.syntax.source import Span
from gilk.values import dataclass


@dataclass
class Invocation:
    """The parts of the command line that matter to all programs."""

    macros: Macros
    options: Options


@dataclass
class SharedNames:
    """The names that all programs share. ``inlines``: the stability of each inline. ``least``: the option amin.
    ``clauses``: the clauses so far. ``destructive``: the place of the first destructive action, or None. ``empty``: the
    option. ``allocated``: the variables that may hold memory of alloca(), by their places. ``processor``: the option
    cpu.
    """

    scope: Scope
    expressions: Expressions
    pragmas: Pragmas
    least: Attributes | None = None
    inlines: dict[str, Attributes] = field(default_factory=dict)
    clauses: list[tree.Clause] = field(default_factory=list)
    destructive: Span | None = None
    empty: bool = False
    allocated: set[tuple[str, int]] = field(default_factory=set)
    processor: int | None = None

    def program(self) -> tree.Program:
        """The whole program."""
        scope = self.scope
        return tree.Program(
            tuple(self.clauses),
            tuple(scope.variables.values()),
            tuple(scope.aggregations.values()),
            scope.globals_size,
            scope.this_size,
            self.destructive,
            strsize=scope.strsize,
            scratchsize=scope.scratchsize,
            stacks=scope.stacks,
            interfaces=self.expressions.arguments.interfaces,
            providers=self.pragmas.providers,
            locals=tuple(scope.locals),
        )


def symbols(options: Options, world: World | None) -> SharedNames:
    """A state in which nothing is declared. ``options``: those of the command line and of all pragmas."""
    usual, most = options.number("ustackframes"), options.number("maxframes")
    frames = Frames(usual, most, options.number("stackframes"), options.number("jstackframes"))
    scope = Scope(options.number("strsize") + 1, world or Nothing(), frames, by_processor=options.flag("aggpercpu"))
    scope.scratchsize, scope.version = options.number("scratchsize"), options.text("version")
    scope.pcapsize = options.number("pcapsize")
    expressions = Expressions(scope)
    pragmas = Pragmas(scope, expressions.arguments)
    least, cpu = read(options.text("amin")), options.text("cpu")
    on = int(cpu) if cpu else None
    return SharedNames(scope, expressions, pragmas, least, empty=options.flag("empty"), processor=on)
