# SPDX-License-Identifier: LGPL-2.1-or-later
"""The names of a program that may be unfinished: everything declared by items that can be understood by themselves.

The passes (passes/order.py) refuse a program for its first mistake. Here only an item with a mistake is left out, and
its declarations before the mistake count.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from gilk.lang.d import ast, items
from gilk.lang.d.meaning.world import World
from gilk.lang.d.parser import parse
from gilk.lang.d.passes import declarations, records, types
from gilk.lang.d.passes.state import Invocation, SharedNames, symbols
from gilk.lang.d.passes.values import ProgramText
from gilk.lang.syntax.source import Rejected, Source
from gilk.lang.types import Member, Pointer, Record, Translated, Type
from gilk.values import dataclass

_MOST_ITEMS = 2000  # a limit for the items of a program; one that is written by hand has a few dozen


@dataclass
class PartialProgram:
    """A program under construction. ``names``: the names that are known so far."""

    invocation: Invocation
    names: SharedNames

    @classmethod
    def begin(cls, invocation: Invocation, world: World | None, libraries: Iterable[Source]) -> PartialProgram:
        made = cls(invocation, symbols(invocation.options, world))
        for library in libraries:
            made._add(ProgramText("library", library))
        return made

    def add(self, texts: Iterable[str]) -> None:
        """Add items, each a text of its own, in the order of the program."""
        for text, _ in zip(texts, range(_MOST_ITEMS), strict=False):
            self._add(ProgramText("script", Source("program", text)))

    def probes_of(self, clause: str) -> tuple[str, ...]:
        """The probe descriptions of a clause, in which macro variables are replaced."""
        program = self._parsed(Source("program", clause))
        found = program.items if program is not None else ()
        return tuple(probe.text for each in found if isinstance(each, items.Clause) for probe in each.probes)

    def type_of(self, clause: str) -> Type | None:
        """The type of the last expression of a clause; None if it has none."""
        program = self._parsed(Source("program", clause))
        if program is None or not program.items or not isinstance(last := program.items[-1], items.Clause):
            return None
        expression = _last(last.body)
        if expression is None:
            return None
        self._understand(last)
        with suppress(Rejected):
            return self.names.expressions.check(expression).type
        return None

    def members(self, type_: Type, arrow: bool) -> list[Member]:
        """The members that can follow ``type_`` and an arrow or a dot, including those of unnamed members."""
        match type_:
            case Pointer(to=Record() as record) if arrow:
                return self._members(record)
            case Record() if not arrow:
                return self._members(type_)
            case Translated(record=record, pointer=pointer) if pointer is arrow:
                return self._members(record)
        return []

    def _members(self, record: Record) -> list[Member]:
        found: list[Member] = []
        seen: set[int] = set()
        open_ = [record]
        while open_:
            each = self.names.expressions.declarations.complete(open_.pop())
            if not isinstance(each, Record) or id(each) in seen:
                continue
            seen.add(id(each))
            found += [member for member in each.members if member.name]
            open_ += [member.type for member in each.members if not member.name and isinstance(member.type, Record)]
        return found

    def _parsed(self, source: Source) -> items.ProgramSyntax | None:
        macros = replace(self.invocation.macros, argref=True, default=True)
        return parse(source, macros, self.names.scope.typedefs).program

    def _add(self, text: ProgramText) -> None:
        program = self._parsed(text.source)
        if program is None:
            return
        for item in program.items:
            with suppress(Rejected):
                declarations.declare(item, text.is_library, self.names)
            if isinstance(item, items.Clause):
                self._understand(item)

    def _understand(self, clause: items.Clause) -> None:
        """Take note of what the clause's statements declare, each statement by itself."""
        whole = clause.body.statements if clause.body is not None else ()
        for statement in whole:
            body = items.StatementBlock(statement.span, (statement,))
            alone = items.Clause(clause.span, clause.probes, clause.predicate, body)
            with suppress(Rejected):
                records.run(types.run(alone, self.names), self.names)


def _last(statement: items.Statement | None) -> ast.Expr | None:
    """The last expression in a statement; None if there is none."""
    while statement is not None:
        match statement:
            case items.ExpressionStatement(value=value):
                return value
            case items.If(then=then, otherwise=otherwise):
                statement = otherwise or then
            case items.StatementBlock(statements=inner):
                statement = inner[-1] if inner else None
    return None
