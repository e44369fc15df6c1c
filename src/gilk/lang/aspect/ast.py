# SPDX-License-Identifier: LGPL-2.1-or-later
"""The tree of a file of aspects: what is written, before anything of it has a meaning.

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
    """A name; ``_`` where nothing is to be bound."""

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class CText(AspectNode):
    """A fragment of C as written: an expression, or a block or call of advice, or a part of the file's own C.

    The span is that of ``text``, without the brackets of the language around it.
    """

    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Declared(AspectNode):
    """A declaration in C: of a parameter, a binding, a word. ``name`` is None of a parameter that has none."""

    type: TypeName
    name: Ident | None
    value: CText | None = None


@dataclass(frozen=True, slots=True, eq=False)
class CodePattern(AspectNode):
    """Functions or an image: ``image`` is None where no colon is. ``quoted``: a symbol or C++ name between backquotes,
    which is in ``name`` without them. ``glob``: it has one of ``* ? [``.
    """

    image: str | None
    name: str
    quoted: bool = False
    glob: bool = False


# Join points


@dataclass(frozen=True, slots=True, eq=False)
class CallPattern(AspectNode):
    """``parameters`` is None of ``(..)``: any. ``noreturn``: the declaration begins with _Noreturn."""

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
    """Without a ``length``: as much as the name points to."""

    write: bool
    name: Ident
    length: CText | None = None


@dataclass(frozen=True, slots=True, eq=False)
class FlowPattern(AspectNode):
    """``outer`` are outermost first."""

    strict: bool
    outer: tuple[CallPattern, ...]
    last: CallPattern | GlobalPattern


@dataclass(frozen=True, slots=True, eq=False)
class PointcutUse(AspectNode):
    """The match of a named pointcut; its names are those of ``arguments`` here."""

    name: Ident
    arguments: tuple[Ident, ...]


@dataclass(frozen=True, slots=True, eq=False)
class EitherPattern(AspectNode):
    """``(a || b)``; there is at least one."""

    matches: tuple[Match, ...]


Term: TypeAlias = CallPattern | GlobalPattern | AliasPattern | FlowPattern | PointcutUse | EitherPattern


# Qualifiers


@dataclass(frozen=True, slots=True, eq=False)
class GivesQualifier(AspectNode):
    """``what`` is return, value, old, size or offset."""

    what: str
    name: Ident


@dataclass(frozen=True, slots=True, eq=False)
class ArgsQualifier(AspectNode):
    names: tuple[Ident, ...]


@dataclass(frozen=True, slots=True, eq=False)
class BindQualifier(AspectNode):
    """Without a ``type`` the name has that of the expression."""

    name: Ident
    type: TypeName | None
    expression: CText


@dataclass(frozen=True, slots=True, eq=False)
class IfQualifier(AspectNode):
    condition: CText


@dataclass(frozen=True, slots=True, eq=False)
class FromQualifier(AspectNode):
    """Calls by one of these functions only."""

    callers: tuple[CodePattern, ...]


@dataclass(frozen=True, slots=True, eq=False)
class InQualifier(AspectNode):
    """Accesses by code of these images and functions only."""

    where: tuple[CodePattern, ...]


Qualifier: TypeAlias = GivesQualifier | ArgsQualifier | BindQualifier | IfQualifier | FromQualifier | InQualifier


@dataclass(frozen=True, slots=True, eq=False)
class Match(AspectNode):
    term: Term
    qualifiers: tuple[Qualifier, ...] = ()


# Aspects


@dataclass(frozen=True, slots=True, eq=False)
class AdviceItem(AspectNode):
    """``when`` is before, inplace or after: before where only ``then`` is written. ``block``: it is in braces, which
    are part of the body; otherwise one call, without its semicolon.
    """

    when: str
    body: CText
    block: bool


@dataclass(frozen=True, slots=True, eq=False)
class PlaceItem(AspectNode):
    groups: tuple[Ident, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ElementItem(AspectNode):
    """``star``: the place of the ``*``, None if there is none."""

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
    """``name`` is perthread, perprocess, partial, verify or walk."""

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
    """``%{ %}``, or with ``kernel`` ``%K{ %}``."""

    kernel: bool
    code: CText


@dataclass(frozen=True, slots=True, eq=False)
class TypesItem(AspectNode):
    images: tuple[Ident, ...]


@dataclass(frozen=True, slots=True, eq=False)
class GroupItem(AspectNode):
    """``of``: the groups that it consists of; () of one whose processes are named when it is woven."""

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
    """All items are in the order of the text."""

    source: Source
    items: tuple[FileItem, ...]
