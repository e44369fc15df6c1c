# SPDX-License-Identifier: LGPL-2.1-or-later
"""The tree of a file of aspects as written; the passes of meaning/ find out what it means.

Types and declarators are nodes of lang/d/ast.py. C is kept as text, with its place. Nodes are compared by identity.
"""

from __future__ import annotations

from typing import TypeAlias

from gilk.lang.d.ast import TypeName
from gilk.lang.syntax.source import Source, Span
from gilk.values import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class AspectNode:
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Ident(AspectNode):
    """A name; ``_`` means that nothing is bound."""

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class CText(AspectNode):
    """A fragment of C as written: an expression, or a block or call of advice, or a part of the file's own C.

    The span is that of ``text``, without the brackets of the language around it.
    """

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Declared(AspectNode):
    """A declaration in C, of a parameter, a binding or a word. ``name`` is None for a parameter without a name."""

    type: TypeName
    name: Ident | None
    value: CText | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CodePattern(AspectNode):
    """A pattern for functions or an image. ``image`` is None if there is no colon. ``quoted``: ``name`` was written
    between backquotes, as a symbol or a C++ name; it is without them here. ``glob``: the pattern has one of ``* ? [``.
    """

    image: str | None
    name: str
    quoted: bool = False
    glob: bool = False


# Join points


@dataclass(frozen=True, slots=True, eq=False)
class CallPattern(AspectNode):
    """A pattern for calls. ``parameters`` is None for ``(..)``, which is any parameters. ``noreturn``: the declaration
    begins with _Noreturn.
    """

    result: TypeName
    function: CodePattern
    parameters: tuple[Declared, ...] | None
    variadic: bool = False
    noreturn: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class GlobalPattern(AspectNode):
    write: bool
    type: TypeName
    image: str | None
    name: Ident
    members: tuple[Ident, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class AliasPattern(AspectNode):
    """A pattern for accesses of the memory to which ``name`` points. Without a ``length`` it is as long as the type to
    which the name points.
    """

    write: bool
    name: Ident
    length: CText | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FlowPattern(AspectNode):
    """A pattern for a control flow. The functions ``outer`` are outermost first."""

    strict: bool
    outer: tuple[CallPattern, ...]
    last: CallPattern | GlobalPattern


@dataclass(frozen=True, slots=True, eq=False)
class PointcutUse(AspectNode):
    """A use of a named pointcut; ``arguments`` are the names at this place for the names of the pointcut."""

    name: Ident
    arguments: tuple[Ident, ...]


@dataclass(frozen=True, slots=True, eq=False)
class EitherPattern(AspectNode):
    """``(a || b)``; there is at least one match."""

    matches: tuple[Match, ...]


Term: TypeAlias = CallPattern | GlobalPattern | AliasPattern | FlowPattern | PointcutUse | EitherPattern


# Qualifiers


@dataclass(frozen=True, slots=True, eq=False)
class GivesQualifier(AspectNode):
    """A qualifier that binds a value of the event; ``what`` is return, value, old, size or offset."""

    what: str
    name: Ident


@dataclass(frozen=True, slots=True, eq=False)
class ArgsQualifier(AspectNode):
    names: tuple[Ident, ...]


@dataclass(frozen=True, slots=True, eq=False)
class BindQualifier(AspectNode):
    """A qualifier that binds an expression. Without a ``type`` the name has the type of the expression."""

    name: Ident
    type: TypeName | None
    expression: CText


@dataclass(frozen=True, slots=True, eq=False)
class IfQualifier(AspectNode):
    condition: CText


@dataclass(frozen=True, slots=True, eq=False)
class FromQualifier(AspectNode):
    """A qualifier that accepts only calls by one of these functions."""

    callers: tuple[CodePattern, ...]


@dataclass(frozen=True, slots=True, eq=False)
class InQualifier(AspectNode):
    """A qualifier that accepts only accesses by code of these images and functions."""

    where: tuple[CodePattern, ...]


Qualifier: TypeAlias = GivesQualifier | ArgsQualifier | BindQualifier | IfQualifier | FromQualifier | InQualifier


@dataclass(frozen=True, slots=True, eq=False)
class Match(AspectNode):
    term: Term
    qualifiers: tuple[Qualifier, ...] = ()


# Aspects


@dataclass(frozen=True, slots=True, eq=False)
class AdviceItem(AspectNode):
    """Advice. ``when`` is before, inplace or after; it is before if only ``then`` is written. ``block``: the body is a
    block with its braces; otherwise it is one call, without its semicolon.
    """

    when: str
    body: CText
    block: bool


@dataclass(frozen=True, slots=True, eq=False)
class PlaceItem(AspectNode):
    groups: tuple[Ident, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ElementItem(AspectNode):
    """An element. ``star``: the place of its ``*``, None if there is none."""

    place: PlaceItem | None
    match: Match
    advice: AdviceItem | None = None
    star: Span | None = None


@dataclass(frozen=True, slots=True, eq=False)
class UntilItem(AspectNode):
    place: PlaceItem | None
    match: Match


@dataclass(frozen=True, slots=True, eq=False)
class WithinItem(AspectNode):
    nanoseconds: int


@dataclass(frozen=True, slots=True, eq=False)
class SequenceItem(AspectNode):
    elements: tuple[ElementItem, ...]
    until: tuple[UntilItem, ...] = ()
    within: WithinItem | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FlagOption(AspectNode):
    """An option without a value; ``name`` is perthread, perprocess, partial, verify, walk or debugreg."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class UniqueOption(AspectNode):
    names: tuple[Ident, ...]


@dataclass(frozen=True, slots=True, eq=False)
class InstancesOption(AspectNode):
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class VarOption(AspectNode):
    words: tuple[Declared, ...]


AspectOption: TypeAlias = FlagOption | UniqueOption | InstancesOption | VarOption


@dataclass(frozen=True, slots=True, eq=False)
class AspectItem(AspectNode):
    name: Ident | None
    options: tuple[AspectOption, ...]
    body: ElementItem | SequenceItem


# The rest of a file


@dataclass(frozen=True, slots=True, eq=False)
class CPart(AspectNode):
    """C between ``%{ %}``, or between ``%K{ %}`` if ``kernel``."""

    kernel: bool
    code: CText


@dataclass(frozen=True, slots=True, eq=False)
class TypesItem(AspectNode):
    images: tuple[Ident, ...]


@dataclass(frozen=True, slots=True, eq=False)
class GroupItem(AspectNode):
    """A group. ``of``: the groups of which it consists; () for a group whose processes are named when it is woven."""

    name: Ident
    of: tuple[Ident, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class TableItem(AspectNode):
    name: Ident
    key: tuple[TypeName, ...]
    fold: Ident


@dataclass(frozen=True, slots=True, eq=False)
class PointcutItem(AspectNode):
    name: Ident
    parameters: tuple[Declared, ...]
    match: Match


FileItem: TypeAlias = CPart | TypesItem | GroupItem | TableItem | PointcutItem | AspectItem


@dataclass(frozen=True, slots=True, eq=False)
class AspectFile:
    """A file of aspects; its items are in the order of the text."""

    source: Source
    items: tuple[FileItem, ...]
