# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a program means, item by item."""

from __future__ import annotations

from dataclasses import replace

from gilk.lang.d import items, tree
from gilk.lang.d.meaning.clauses import Clauses
from gilk.lang.d.meaning.expressions import Expressions
from gilk.lang.d.meaning.pragmas import Pragmas
from gilk.lang.d.meaning.reliance import Reliance
from gilk.lang.d.meaning.scope import Frames, Scope
from gilk.lang.d.meaning.world import Nothing, World
from gilk.lang.d.stability import Attributes
from gilk.lang.d.tags import Tag
from gilk.lang.syntax.source import Rejected
from gilk.lang.types import Type


class Checker:
    """Takes the items of a program, or of several that share their variables, in the order of their text."""

    def __init__(
        self,
        strsize: int = 256,
        world: World | None = None,
        frames: Frames | None = None,
        least: Attributes | None = None,
        by_processor: bool = False,
    ) -> None:
        """``strsize``: the option, in bytes. ``least``, ``by_processor``: the options amin and aggpercpu."""
        self._scope = Scope(strsize, world or Nothing(), frames or Frames(), by_processor=by_processor)
        self._expressions = Expressions(self._scope)
        self._clauses = Clauses(self._scope, self._expressions)
        self._pragmas = Pragmas(self._scope, self._expressions.arguments)
        self._reliance = Reliance(self._scope, self._pragmas, least)
        self._found: list[tree.Clause] = []

    @property
    def clauses(self) -> int:
        """How many there have been."""
        return len(self._found)

    @property
    def types(self) -> frozenset[str]:
        """Names that have been given to types so far."""
        return frozenset(self._scope.typedefs)

    def item(self, item: items.Item, library: bool = False) -> None:
        """Raises Rejected. Options are for who reads them."""
        self._scope.extent.begin()
        match item:
            case items.Clause():
                if library:
                    raise Rejected(Tag.D_SYNTAX, item.span, "a library has no clauses")
                found = self._clauses.clause(len(self._found) + 1, item)
                self._found.append(replace(found, attributes=self._reliance.clause(item)))
            case items.Declaration():
                self._expressions.declarations.declare(item)
            case items.Inline():
                self._expressions.inlines.define(item)
                self._reliance.inline(item)
            case items.Pragma():
                self._pragmas.pragma(item, library)
            case items.Translator():
                self._expressions.translators.define(item)
            case items.ProviderDefinition():
                self._expressions.arguments.define(item)

    def finish(self, library: str = "") -> None:
        """A text ends; ``library``: its name, if it is one. Raises Rejected."""
        self._pragmas.finish(library)

    def argument_types(self, probe: str) -> tuple[Type, ...]:
        """Of what the probes of that description give, as far as it is known."""
        return self._expressions.arguments.types(probe)

    def program(self) -> tree.Program:
        scope = self._scope
        return tree.Program(
            tuple(self._found),
            tuple(scope.variables.values()),
            tuple(scope.aggregations.values()),
            scope.globals_size,
            scope.this_size,
            self._clauses.destructive,
            strsize=scope.strsize,
            stacks=scope.stacks,
            interfaces=self._expressions.arguments.interfaces,
            providers=self._pragmas.providers,
        )
