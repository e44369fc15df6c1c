# SPDX-License-Identifier: LGPL-2.1-or-later
"""The syntax tree of a D program: expressions, and types as they are written. items.py has statements and the rest.

Nodes are compared by identity, so that a pass can keep notes about nodes in a dictionary. No tree is higher than
``depth.HEIGHT``, so passes may recurse.
"""

from __future__ import annotations

from typing import TypeAlias

from gilk.lang.syntax.source import Span
from gilk.values import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    span: Span


# Expressions


@dataclass(frozen=True, slots=True, eq=False)
class Number(Node):
    """A number. ``suffix``: '', 'u', 'l', 'ul', 'll' or 'ull' as written, or 'char' for a character constant.

    ``decimal``: a number that is not decimal may become unsigned if it does not fit its type, as in C.
    """

    value: int
    suffix: str = ""
    decimal: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Text(Node):
    """A string literal with its escapes resolved. Its bytes are those of UTF-8 with "surrogateescape"."""

    value: str


@dataclass(frozen=True, slots=True, eq=False)
class Name(Node):
    """A variable, a constant of an enum, or an inline; as the operand of sizeof also a type that is not
    declared here.
    """

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Variable(Node):
    """A variable ``self->name`` or ``this->name``."""

    scope: str
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Symbol(Node):
    """A symbol ``module`name``. The module of ``a`b`c`` is "a`b"; it is "" if nothing is before the backquote."""

    module: str
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate(Node):
    """An aggregation ``@name`` or ``@name[keys]``; the name of a lone ``@`` is '_'."""

    name: str
    keys: tuple[Expr, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Node):
    """A prefix operator; ``op`` is one of + - ~ ! * & ++ --"""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Postfix(Node):
    """A postfix operator; ``op`` is ++ or --"""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Node):
    """A binary operator, including && || ^^, but neither the comma nor an assignment."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Assign(Node):
    """An assignment; ``op`` is '=' or one like '+='."""

    op: str
    target: Expr
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Conditional(Node):
    test: Expr
    yes: Expr
    no: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Comma(Node):
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Call(Node):
    name: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Index(Node):
    """An index ``base[keys]`` of an array, a pointer (one key) or an associative array; ``args[0]`` is one too."""

    base: Expr
    keys: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Member(Node):
    """A member ``base.name``, or ``base->name`` if ``arrow``."""

    base: Expr
    name: str
    arrow: bool


@dataclass(frozen=True, slots=True, eq=False)
class Cast(Node):
    type: TypeName
    operand: Expr


@dataclass(frozen=True, slots=True, eq=False)
class SizeofType(Node):
    type: TypeName


@dataclass(frozen=True, slots=True, eq=False)
class Sizeof(Node):
    operand: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Stringof(Node):
    operand: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Offsetof(Node):
    type: TypeName
    member: str


@dataclass(frozen=True, slots=True, eq=False)
class Xlate(Node):
    type: TypeName
    operand: Expr


Expr: TypeAlias = (
    Number
    | Text
    | Name
    | Variable
    | Symbol
    | Aggregate
    | Unary
    | Postfix
    | Binary
    | Assign
    | Conditional
    | Comma
    | Call
    | Index
    | Member
    | Cast
    | SizeofType
    | Sizeof
    | Stringof
    | Offsetof
    | Xlate
)


# Types


@dataclass(frozen=True, slots=True, eq=False)
class BasicType(Node):
    """A type of words as written, with qualifiers: ("unsigned", "const", "int"), or one name: ("uint64_t",),
    ("string",).
    """

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Enumerator(Node):
    """A constant of an enum. ``behind``: the next token, at which mistakes in the constant are reported."""

    name: str
    value: Expr | None
    behind: Span = Span(0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class TagType(Node):
    """A struct, a union or an enum, as ``kind`` says. A struct or union that is only named has ``members`` None, not
    ().
    """

    kind: str
    tag: str | None
    members: tuple[MemberDeclaration, ...] | None = None
    enumerators: tuple[Enumerator, ...] | None = None


BaseType: TypeAlias = BasicType | TagType


@dataclass(frozen=True, slots=True, eq=False)
class Pointer(Node):
    pass


@dataclass(frozen=True, slots=True, eq=False)
class ArrayOf(Node):
    """An array. It has no ``size`` if it is a parameter, or a struct's last member."""

    size: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class KeyedBy(Node):
    """The keys of an associative array. The keys of an inline have names."""

    types: tuple[TypeName, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FunctionOf(Node):
    parameters: tuple[TypeName, ...]
    variadic: bool = False


Shape: TypeAlias = Pointer | ArrayOf | KeyedBy | FunctionOf


@dataclass(frozen=True, slots=True, eq=False)
class Declarator(Node):
    """A declared name and the shape of its type. ``shape`` goes from the name outwards: that of ``int *a[3]`` is
    (ArrayOf 3, Pointer), an array of pointers.
    """

    name: str | None
    shape: tuple[Shape, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class TypeName(Node):
    """A type in an expression, a parameter, or a key."""

    base: BaseType
    declarator: Declarator


@dataclass(frozen=True, slots=True, eq=False)
class MemberDeclaration(Node):
    """One member; ``int a, b;`` makes two. An anonymous struct and padding bits have no name."""

    base: BaseType
    declarator: Declarator
    bits: Expr | None = None
