# SPDX-License-Identifier: LGPL-2.1-or-later
"""The syntax tree of a D program: statements, the items at the top level, and the whole. Nodes are those of ast.py."""

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
    """Empty statements are left out."""

    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True, eq=False)
class If(Node):
    """Branches are always blocks; ``else if`` is a block of one If."""

    test: Expr
    then: StatementBlock
    otherwise: StatementBlock | None = None


Statement: TypeAlias = ExpressionStatement | If | StatementBlock


# Top level


@dataclass(frozen=True, slots=True, eq=False)
class ProbeText(Node):
    """A probe's description, ``provider:module:function:name`` from the right, or a probe's number.

    Macro variables are replaced, and there are no blanks.
    """

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Clause(Node):
    """``body`` is None of a description alone, and has no statements of ``{}``: both take the default action."""

    probes: tuple[ProbeText, ...]
    predicate: Expr | None
    body: StatementBlock | None


@dataclass(frozen=True, slots=True, eq=False)
class Declaration(Node):
    """``storage`` is '', self, this, extern, static or typedef. No declarators: it declares a tag."""

    storage: str
    base: BaseType
    declarators: tuple[Declarator, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Inline(Node):
    """``inline int x = 1;``, or with KeyedBy in the declarator's shape ``inline int x[int key] = …;``"""

    base: BaseType
    declarator: Declarator
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class TranslatorMember(Node):
    """``behind``: where it is known what is wrong with it, at what comes next."""

    name: str
    value: Expr
    behind: Span = Span(0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Translator(Node):
    """``translator output < input name > { members };``"""

    output: TypeName
    input: TypeName
    name: str
    members: tuple[TranslatorMember, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Pragma(Node):
    """``#pragma D kind words``; kind is option, attributes, binding or depends_on. Quotes are off.

    An option's name and value are two words: "quiet" has one, "bufsize=4m" is ("bufsize", "4m").
    """

    kind: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ProbeDefinition(Node):
    """``probe name(native parameters) : (translated parameters);``, the latter None when they are the same."""

    name: str
    parameters: FunctionOf
    translated: FunctionOf | None


@dataclass(frozen=True, slots=True, eq=False)
class ProviderDefinition(Node):
    name: str
    probes: tuple[ProbeDefinition, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Unreadable(Node):
    """The rest of a program from its first mistake of grammar on."""

    diagnostic: Diagnostic


Item: TypeAlias = Clause | Declaration | Inline | Translator | Pragma | ProviderDefinition | Unreadable


@dataclass(frozen=True, slots=True)
class Marker:
    """The preprocessor's word that the line that begins at ``offset`` is line ``line`` of ``file``."""

    offset: int
    line: int
    file: str


@dataclass(frozen=True, slots=True, eq=False)
class ProgramSyntax:
    """``items`` are in source order, the unreadable one last. ``markers`` are what ``#line`` said: see place()."""

    source: Source
    items: tuple[Item, ...]
    markers: tuple[Marker, ...] = ()

    @property
    def mistake(self) -> Diagnostic | None:
        """The one at which reading stopped."""
        last = self.items[-1] if self.items else None
        return last.diagnostic if isinstance(last, Unreadable) else None

    def place(self, span: Span) -> tuple[str, int]:
        return place(self.source, self.markers, span)


def place(source: Source, markers: tuple[Marker, ...], span: Span) -> tuple[str, int]:
    """The file and line of it: before the preprocessor, if there was one."""
    before = [marker for marker in markers if marker.offset <= span.start]
    if not before:
        return source.name, source.line(span)
    lines = source.text.count("\n", before[-1].offset, span.start)
    return before[-1].file, before[-1].line + lines
