# SPDX-License-Identifier: LGPL-2.1-or-later
"""The syntax tree of a D program: expressions, and types as they are written. items.py has statements and the rest.

Nodes are compared by identity, so that a pass can note something of each in a dictionary. No tree is higher than
``depth.HEIGHT``: passes may recurse.
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
    """``suffix``: '', 'u', 'l', 'ul', 'll' or 'ull' as written, or 'char' of a character constant.

    ``decimal``: what is not may become unsigned when it does not fit its type, as in C.
    """

    value: int
    suffix: str = ""
    decimal: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Text(Node):
    """A string literal, its escapes resolved. Its bytes are those of UTF-8 with "surrogateescape"."""

    value: str


@dataclass(frozen=True, slots=True, eq=False)
class Name(Node):
    """A variable, a constant of an enum, an inline; as the operand of sizeof also a type that is not declared here."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Variable(Node):
    """``self->name`` or ``this->name``."""

    scope: str
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Symbol(Node):
    """``module`name``. The module of ``a`b`c`` is "a`b"; it is "" when nothing is before the backquote."""

    module: str
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate(Node):
    """``@name`` or ``@name[keys]``; the name is '_' of a lone ``@``."""

    name: str
    keys: tuple[Expr, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Node):
    """``op`` is one of + - ~ ! * & ++ --"""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Postfix(Node):
    """``op`` is ++ or --"""

    op: str
    operand: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Node):
    """Also && || ^^, but neither the comma nor assignments."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Assign(Node):
    """``op`` is '=' or one like '+='."""

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
    """``base[keys]``, of an array, a pointer (one key) or an associative array; ``args[0]`` too."""

    base: Expr
    keys: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Member(Node):
    """``base.name``, or with ``arrow`` ``base->name``."""

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
    """As written, with qualifiers: ("unsigned", "const", "int"), or one name: ("uint64_t",), ("string",)."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Enumerator(Node):
    """``behind``: where it is known what is wrong with it, at what comes next."""

    name: str
    value: Expr | None
    behind: Span = Span(0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class TagType(Node):
    """``kind`` is struct, union or enum. A struct or union that is only named has no ``members``, not even ()."""

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
    """Without a ``size``: of a parameter, or of a struct's last member."""

    size: Expr | None


@dataclass(frozen=True, slots=True, eq=False)
class KeyedBy(Node):
    """An associative array's keys. Those of an inline have names."""

    types: tuple[TypeName, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FunctionOf(Node):
    parameters: tuple[TypeName, ...]
    variadic: bool = False


Shape: TypeAlias = Pointer | ArrayOf | KeyedBy | FunctionOf


@dataclass(frozen=True, slots=True, eq=False)
class Declarator(Node):
    """``shape`` goes from the name outwards: of ``int *a[3]`` it is (ArrayOf 3, Pointer), an array of pointers."""

    name: str | None
    shape: tuple[Shape, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class TypeName(Node):
    """A type where an expression has one, a parameter, or a key."""

    base: BaseType
    declarator: Declarator


@dataclass(frozen=True, slots=True, eq=False)
class MemberDeclaration(Node):
    """One member: of ``int a, b;`` there are two. It has no name when it is an anonymous struct or padding bits."""

    base: BaseType
    declarator: Declarator
    bits: Expr | None = None
