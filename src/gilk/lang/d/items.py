# SPDX-License-Identifier: LGPL-2.1-or-later
"""The syntax tree of a D program: statements, items at the top level, and the whole program. It uses the nodes of
ast.py.
"""

from __future__ import annotations

from typing import TypeAlias

from gilk.lang.d.ast import BaseType, Declarator, Expr, FunctionOf, Node, TypeName
from gilk.lang.syntax.source import Diagnostic, Source, Span
from gilk.values import dataclass

# Statements


@dataclass(frozen=True, slots=True, eq=False)
class ExpressionStatement(Node):
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class StatementBlock(Node):
    """Statements in braces, without the empty ones."""

    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class If(Node):
    """An if. Its branches are always blocks; ``else if`` is a block of one If."""

    test: Expr
    then: StatementBlock
    otherwise: StatementBlock | None = None


Statement: TypeAlias = ExpressionStatement | If | StatementBlock


# Top level


@dataclass(frozen=True, slots=True, eq=False)
class ProbeText(Node):
    """A probe's description, ``provider:module:function:name`` filled from the right, or a probe's number.

    Macro variables are replaced, and there are no blanks.
    """

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Clause(Node):
    """A clause. ``body`` is None if there is only a description, and has no statements if it is ``{}``; both mean the
    default action.
    """

    probes: tuple[ProbeText, ...]
    predicate: Expr | None
    body: StatementBlock | None


@dataclass(frozen=True, slots=True, eq=False)
class Declaration(Node):
    """A declaration. ``storage`` is '', self, this, extern, static or typedef. Without declarators it
    declares a tag.
    """

    storage: str
    base: BaseType
    declarators: tuple[Declarator, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Inline(Node):
    """An inline ``inline int x = 1;``, or, with KeyedBy in the declarator's shape, ``inline int x[int key] = …;``"""

    base: BaseType
    declarator: Declarator
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class TranslatorMember(Node):
    """A member of a translator. ``behind``: the next token, at which mistakes in the member are reported."""

    name: str
    value: Expr
    behind: Span = Span(0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Translator(Node):
    """A translator ``translator output < input name > { members };``."""

    output: TypeName
    input: TypeName
    name: str
    members: tuple[TranslatorMember, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Pragma(Node):
    """A pragma ``#pragma D kind words`` without quotes; ``kind`` is option, attributes, binding or depends_on.

    The name and the value of an option are two words: "quiet" is ("quiet",), "bufsize=4m" is ("bufsize", "4m").
    """

    kind: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ProbeDefinition(Node):
    """A probe ``probe name(native parameters) : (translated parameters);``; ``translated`` is None if they are the
    same.
    """

    name: str
    parameters: FunctionOf
    translated: FunctionOf | None


@dataclass(frozen=True, slots=True, eq=False)
class ProviderDefinition(Node):
    name: str
    probes: tuple[ProbeDefinition, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Unreadable(Node):
    """The rest of a program from its first syntax error on."""

    diagnostic: Diagnostic


Item: TypeAlias = Clause | Declaration | Inline | Translator | Pragma | ProviderDefinition | Unreadable


@dataclass(frozen=True, slots=True)
class Marker:
    """The preprocessor's statement that the line which begins at ``offset`` is line ``line`` of ``file``."""

    offset: int
    line: int
    file: str


@dataclass(frozen=True, slots=True, eq=False)
class ProgramSyntax:
    """A program. ``items`` are in source order, an unreadable one last. ``markers`` come from ``#line``;
    see place().
    """

    source: Source
    items: tuple[Item, ...]
    markers: tuple[Marker, ...] = ()

    @property
    def mistake(self) -> Diagnostic | None:
        """The error at which reading stopped, None if there was none."""
        last = self.items[-1] if self.items else None
        return last.diagnostic if isinstance(last, Unreadable) else None

    def place(self, span: Span) -> tuple[str, int]:
        return place(self.source, self.markers, span)

    def is_included(self, span: Span) -> bool:
        """Whether the text of ``span`` comes from another file, which the preprocessor has included."""
        return bool(self.markers) and self.place(span)[0] != self.markers[0].file


def place(source: Source, markers: tuple[Marker, ...], span: Span) -> tuple[str, int]:
    """The file and the line of ``span``, as before the preprocessor if there was one."""
    before = [marker for marker in markers if marker.offset <= span.start]
    if not before:
        return source.name, source.line(span)
    lines = source.text.count("\n", before[-1].offset, span.start)
    return before[-1].file, before[-1].line + lines
