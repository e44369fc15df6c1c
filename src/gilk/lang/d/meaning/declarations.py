# SPDX-License-Identifier: LGPL-2.1-or-later
"""The conversion of types as they are written to types, and of declarations to entries of the scope."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce

from gilk.lang import ir
from gilk.lang.d import ast, items, tree
from gilk.lang.d.meaning import network, versions
from gilk.lang.d.meaning.scope import LARGEST_VARIABLE, Scope
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.d.tags import SyntaxTag
from gilk.lang.syntax.source import Rejected, Span
from gilk.lang.types import (
    ALIASES,
    VOID,
    Array,
    Enumeration,
    Integer,
    Member,
    Pointer,
    Record,
    String,
    Type,
    Void,
    align_of,
    basic,
    is_scalar,
    text,
)

_SUBSCRIPT = "positive integral constant expression or tuple signature expected as array declaration subscript"
#: Words of types, in the order in which DTrace's messages list them.
_QUALIFIERS = ("signed", "unsigned", "short", "long")
_WITHOUT_MEANING = ("const", "volatile", "restrict")
#: In the place of an image's name: what the program declares, and what D has by itself.
_OWN = ("D", "C")
_BITS = "positive integral constant expression expected as bit-field size"
#: Checks an expression; the caller looks whether its value is a constant.
Check = Callable[[ast.Expr], ir.Expression]


def _of_the_program(name: str) -> str:
    """The name of a type, without a prefix before a backquote that stands for the program itself (``D`foo``)."""
    module, _, own = name.rpartition("`")
    return own if module in _OWN else name


def _is_a_headers(name: str, known: Type, declared: Type) -> bool:
    """Whether the types are an integer type that D knows by that name and its declaration in a header of C, such as
    <sys/types.h>; D then accepts the header's declaration.
    """
    same = isinstance(known, Integer) and isinstance(declared, Integer) and known.size == declared.size
    return same and known == ALIASES.get(name)


@contextmanager
def only_types(base: ast.BaseType, only: bool = True) -> Iterator[None]:
    """Where nothing but a type can stand (``only``), an unknown word is a syntax error, as in DTrace."""
    try:
        yield
    except Rejected as rejected:
        unknown = only and rejected.diagnostic.tag == Tag.D_TYPE_ERR
        if unknown and isinstance(base, ast.BasicType):
            raise Rejected(SyntaxTag.D_SYNTAX, base.span, rejected.diagnostic.message) from None
        raise


class Declarations:
    """The reader of types and declarations. ``check`` is the checker of expressions, for sizes of arrays and values of
    enumerators.
    """

    def __init__(self, scope: Scope, check: Check) -> None:
        self._scope = scope
        self._check = check
        self._bases: dict[ast.TagType, Type] = {}  # one base may declare several members or variables

    # Types.

    def type_name(self, name: ast.TypeName) -> Type:
        """The type. Raises Rejected."""
        return self.declared(name.base, name.declarator)[0]

    def resolved(self, name: ast.TypeName) -> Type:
        """The type, completed with all that is known of it by now."""
        return self.complete(self.type_name(name))

    def declared(self, base: ast.BaseType, declarator: ast.Declarator) -> tuple[Type, tuple[Type, ...] | None]:
        """The type, and the types of the keys of an associative array, or None."""
        return self._around(self._base(base), declarator)

    def _around(self, base: Type, declarator: ast.Declarator) -> tuple[Type, tuple[Type, ...] | None]:
        shape, keys = list(declarator.shape), None
        if shape and isinstance(shape[0], ast.KeyedBy):
            keys = tuple(self._key(number, each) for number, each in enumerate(shape[0].types, 1))
            shape = shape[1:]
        found = reduce(self._shaped, reversed(shape), base)
        if shape and isinstance(shape[0], ast.FunctionOf):
            found = Pointer(found)  # in C the name of a function is a pointer to it
        return found, keys

    def _key(self, number: int, given: ast.TypeName) -> Type:
        found = self.type_name(given)
        if isinstance(found, Void) and given.declarator.name is not None:
            raise Rejected(
                Tag.D_DECL_PROTO_NAME, given.span, f"void parameter may not have a name: {given.declarator.name}"
            )
        if not is_scalar(found) and not isinstance(found, String | Record):
            name = given.declarator.name or "(anonymous)"
            what = f"array prototype may not use parameter of type {text(found)}: {name}, parameter #{number}"
            raise Rejected(Tag.D_DECL_PROTO_TYPE, given.span, what)
        return found

    def _shaped(self, type_: Type, shape: ast.Shape) -> Type:
        match shape:
            case ast.Pointer():
                return Pointer(type_)
            case ast.ArrayOf():
                return self._array(type_, shape)
            case ast.FunctionOf():
                self._check_parameters(shape)
                return VOID  # the type behind the pointer has no size
        raise Rejected(Tag.D_DECL_ARRSUB, shape.span, "an associative array cannot be inside of another type")

    def _check_parameters(self, function: ast.FunctionOf) -> None:
        for number, each in enumerate(function.parameters, 1):
            shape, name = each.declarator.shape, each.declarator.name
            if shape and isinstance(shape[0], ast.KeyedBy):
                what = "function prototype may not use parameter of type dynamic variable: "
                raise Rejected(Tag.D_DECL_PROTO_TYPE, each.span, f"{what}{name}, parameter #{number}")
            if not isinstance(self.type_name(each), Void):
                continue
            if len(function.parameters) > 1:
                raise Rejected(Tag.D_DECL_PROTO_VOID, each.span, "void must be sole parameter")
            if name is not None:
                raise Rejected(Tag.D_DECL_PROTO_NAME, each.span, f"void parameter may not have a name: {name}")

    def _array(self, type_: Type, shape: ast.ArrayOf) -> Array:
        count = 0 if shape.size is None else self.constant(shape.size, Tag.D_DECL_ARRSUB, _SUBSCRIPT)
        if count >= 1 << 32:
            raise Rejected(Tag.D_DECL_ARRBIG, shape.span, "array dimension too big")
        if isinstance(type_, Void):
            raise Rejected(Tag.D_DECL_VOIDOBJ, shape.span, "cannot declare an array of void")
        type_ = self.complete(type_)
        if count < 0 or count * max(self._scope.size(type_), 1) > LARGEST_VARIABLE:
            raise Rejected(Tag.D_DECL_ARRSUB, shape.span, _SUBSCRIPT)
        return Array(type_, count)

    def constant(self, expression: ast.Expr, tag: Tag, what: str, span: Span | None = None) -> int:
        """The value of a constant expression. Raises Rejected with ``tag`` and ``what`` if the value is known only when
        the program runs.
        """
        try:
            found = self._check(expression)
        except Rejected as rejected:
            if rejected.diagnostic.tag != Tag.D_IDENT_UNDEF:
                raise
            found = None  # a variable, which has a value only when the program runs
        if isinstance(found, ir.Constant):
            return found.value
        raise Rejected(tag, span or expression.span, what)

    def _base(self, base: ast.BaseType) -> Type:
        if isinstance(base, ast.TagType):
            base = replace(base, tag=_of_the_program(base.tag)) if base.tag else base
            if base not in self._bases:
                self._bases[base] = self._enumeration(base) if base.kind == "enum" else self._record(base)
            return self._bases[base]
        words = tuple(map(_of_the_program, (word for word in base.words if word not in _WITHOUT_MEANING)))
        if len(words) == 1 and words[0] in self._scope.typedefs:
            return self._scope.typedefs[words[0]]
        found = basic(words) or (self._alone(words[0]) if len(words) == 1 else None)
        if found is None and len(words) > 1:
            given = sorted(words, key=lambda word: (*_QUALIFIERS, word).index(word))
            name = f"{' '.join(word for word in given if word in _QUALIFIERS)} "
            name += " ".join(word for word in given if word not in _QUALIFIERS)
            raise Rejected(Tag.D_UNKNOWN, base.span, f"failed to resolve type {name}: Unknown type name")
        if found is None:
            name = " ".join(words)
            raise Rejected(Tag.D_TYPE_ERR, base.span, f"failed to resolve type {name}: Unknown type name")
        return found

    def _alone(self, name: str) -> Type | None:
        """The type that a word names, besides the program's own; None if there is none."""
        known = network.TYPES.get(name)
        return self._elsewhere("", name) or (None if known is None else self.complete(known))

    def _elsewhere(self, kind: str, name: str) -> Type | None:
        """A type of the traced process or kernel, or None. ``name`` may begin with an image and a backquote."""
        module, _, own = name.rpartition("`")
        return self._scope.world.type(module, kind, own)

    def known(self, name: str) -> Type | None:
        """The type of that name which needs no ``struct``, ``union`` or ``enum`` before it; None if there is none."""
        own = _of_the_program(name)
        if own in self._scope.typedefs:
            return self.complete(self._scope.typedefs[own])
        return self._alone(name) if own == name else basic((own,))

    def _enumeration(self, base: ast.TagType) -> Enumeration | Integer:
        key = f"enum {base.tag}"
        if base.enumerators is None:
            known = self._scope.tags.get(key) or self._elsewhere("enum", base.tag or "")
            if not isinstance(known, Enumeration | Integer):
                raise Rejected(Tag.D_TYPE_ERR, base.span, f"failed to resolve type {key}: Unknown type name")
            return known
        names: list[tuple[str, int]] = []
        value = -1
        for each in base.enumerators:
            value = value + 1 if each.value is None else self._enumerator(each, each.value)
            if not -(1 << 31) <= value < 1 << 31:
                what = f"enumerator '{each.name}' value overflows INT_MAX ({(1 << 31) - 1})"
                raise Rejected(Tag.D_DECL_ENOFLOW, each.behind, what)
            if each.name in dict(names):
                what = f"failed to define enumerator '{each.name}': Duplicate member or variable name"
                raise Rejected(Tag.D_UNKNOWN, each.behind, what)
            if each.name in self._scope.enumerators:
                raise Rejected(Tag.D_DECL_IDRED, each.behind, f"identifier redeclared: {each.name}")
            names.append((each.name, value))
            self._scope.enumerators[each.name] = value
        found = Enumeration(base.tag or "", tuple(names))
        if base.tag:
            self._scope.tags[key] = found
        return found

    def _enumerator(self, each: ast.Enumerator, value: ast.Expr) -> int:
        what = f"enumerator '{each.name}' must be assigned to an integral constant expression"
        return self.constant(value, Tag.D_DECL_ENCONST, what, each.behind)

    def _record(self, base: ast.TagType) -> Record:
        key = f"{base.kind} {base.tag}"
        if base.members is None:
            known = self._scope.tags.get(key)
            return known if isinstance(known, Record) else Record(base.kind, base.tag or "", complete=False)
        known = self._scope.tags.get(key)
        if isinstance(known, Record) and known.complete and base.tag:
            raise Rejected(Tag.D_DECL_TYPERED, base.span, f"type redeclared: {key}")
        if base.tag:
            self._scope.tags[key] = Record(base.kind, base.tag, complete=False)
        laid = _Layout(base.kind == "union", self._scope)
        for member in base.members:
            type_ = self.complete(self.declared(member.base, member.declarator)[0])
            bits = member.bits
            width = None if bits is None else self.constant(bits, Tag.D_DECL_BFCONST, _BITS)
            laid.add(member, type_, width)
        found = laid.record(base.kind, base.tag or f"(anon {id(base):x})")
        if base.tag:
            self._scope.tags[key] = found
        return found

    def complete(self, type_: Type) -> Type:
        """The complete type of a struct that was only named when ``type_`` was made, if it is known by now, here or in
        the process; otherwise ``type_``.
        """
        if not isinstance(type_, Record) or type_.complete:
            return type_
        if type_.origin:
            return self._scope.world.completed(type_)
        key = f"{type_.kind} {type_.tag}"
        known = self._scope.tags.get(key) or self._elsewhere(type_.kind, type_.tag) or network.RECORDS.get(key)
        return known if isinstance(known, Record) else type_

    def stepping(self, value: ir.Expression) -> ir.Expression:
        """``value`` with the size of the type to which it points, as far as that is known."""
        if not isinstance(value.type, Pointer) or not isinstance(value.type.to, Record) or value.type.to.complete:
            return value
        return replace(value, type=Pointer(self.complete(value.type.to)))

    def own(self, name: str, type_: Type, span: Span) -> ir.Place:
        """A clause-local variable that the program cannot name."""
        variable = self._scope.declare(span, tree.Variable(f"({name})", "this", type_))
        return ir.Place(type_, "this", variable.offset)

    # Declarations.

    def declare(self, item: items.Declaration, included: bool = False) -> None:
        """Put the declared names into the scope. ``included``: they are in a header of C. Raises Rejected."""
        with only_types(item.base, item.storage == "typedef"):
            base = self._base(item.base)  # once: it may declare a tag
        for declarator in item.declarators:
            if included and declarator.name in self._scope.typedefs and item.storage == "typedef":
                continue  # DTrace keeps C's types apart, and looks for D's first
            self._one(item, declarator, *self._around(base, declarator))

    def _one(
        self, item: items.Declaration, declarator: ast.Declarator, type_: Type, keys: tuple[Type, ...] | None
    ) -> None:
        name = declarator.name or ""
        if item.storage == "typedef":
            known = self._scope.typedefs.get(name)
            if known is not None and known != type_ and not _is_a_headers(name, known, type_):
                raise Rejected(Tag.D_DECL_IDRED, declarator.span, f"typedef redeclared: {name}")
            self._scope.typedefs[name] = type_
            return
        type_ = self.complete(type_)
        if isinstance(type_, Void):
            raise Rejected(Tag.D_DECL_VOIDOBJ, declarator.span, f"cannot declare void object: {name}")
        if isinstance(type_, Record) and not type_.complete:
            raise Rejected(
                Tag.D_DECL_INCOMPLETE, declarator.span, f"incomplete struct/union/enum {text(type_)}: {name}"
            )
        scope = item.storage if item.storage in ("self", "this") else "global"
        is_prototype = bool(declarator.shape) and isinstance(declarator.shape[0], ast.FunctionOf)
        if scope == "global" and not is_prototype and versions.is_taken(name, self._scope.version):
            raise Rejected(Tag.D_DECL_IDRED, declarator.span, f"built-in identifier redeclared: {name}")
        if scope == "this" and keys is not None:
            what = f"associative arrays may not be declared as local variables: {name}"
            raise Rejected(Tag.D_DECL_LOCASSC, declarator.span, what)
        if keys is not None and any(isinstance(key, Record) for key in keys):
            raise Rejected(Tag.D_DECL_PROTO_TYPE, declarator.span, f"a struct cannot be a key: {name}")
        self._scope.declare(declarator.span, tree.Variable(name, scope, type_, keys))


class _Layout:
    """The layout of members, one after another, as in the System V ABI, including bit-fields."""

    def __init__(self, union: bool, scope: Scope) -> None:
        self._union = union
        self._scope = scope
        self._members: list[Member] = []
        self._bit = 0  # the first free bit
        self._bits = 0  # the bits so far; of a union those of its largest member
        self._align = 1

    def add(self, member: ast.MemberDeclaration, type_: Type, bits: int | None) -> None:
        name, size, align = member.declarator.name or "", self._scope.size(type_), align_of(type_)
        shape = member.declarator.shape
        if isinstance(type_, Void) or (shape and isinstance(shape[0], ast.FunctionOf)):
            raise Rejected(Tag.D_DECL_VOIDOBJ, member.span, f"cannot have void member: {name}")
        if isinstance(type_, Record) and not type_.complete:
            raise Rejected(Tag.D_DECL_INCOMPLETE, member.span, f"incomplete struct/union/enum {text(type_)}: {name}")
        if name and any(known.name == name for known in self._members):
            what = f"failed to define member '{name}': Duplicate member or variable name"
            raise Rejected(Tag.D_UNKNOWN, member.span, what)
        if bits is None:
            self._place(name, type_, 8 * size, 8 * align)
        else:
            self._place_bits(member.span, name, type_, bits)

    def _place(self, name: str, type_: Type, bits: int, align: int) -> None:
        start = 0 if self._union else -(-self._bit // align) * align
        self._align = max(self._align, align // 8)
        self._members.append(Member(name, type_, start // 8))
        self._bit = start + bits
        self._bits = max(self._bits, self._bit)

    def _place_bits(self, span: Span, name: str, type_: Type, bits: int) -> None:
        if not isinstance(type_, Integer | Enumeration):
            raise Rejected(Tag.D_DECL_BFTYPE, span, f"invalid type for bit-field: {name or '(anon)'}")
        unit = 8 * self._scope.size(type_)
        if bits < 0 or (not bits and name):
            raise Rejected(Tag.D_DECL_BFCONST, span, _BITS)
        if bits > unit:
            raise Rejected(Tag.D_DECL_BFSIZE, span, f"bit-field too big for type: {name or '(anon)'}")
        start = 0 if self._union else self._bit
        if not bits or start // unit != (start + bits - 1) // unit:
            start = -(-start // unit) * unit
        if name:
            self._align = max(self._align, unit // 8)
            self._members.append(Member(name, type_, start // unit * (unit // 8), bits, start % unit))
        self._bit = start + bits
        self._bits = max(self._bits, self._bit)

    def record(self, kind: str, tag: str) -> Record:
        size = -(-self._bits // (8 * self._align)) * self._align
        return Record(kind, tag, "", size, self._align, tuple(self._members))
