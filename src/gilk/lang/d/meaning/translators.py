# SPDX-License-Identifier: LGPL-2.1-or-later
"""Translators: the result of one is not in memory; each of its members is an expression about the translated value.

The manual's chapter is *Translators*. Members are checked where the translator is defined, and again at each use, with
the translated value in the place of the parameter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gilk.lang import ir
from gilk.lang.d import ast, items
from gilk.lang.d.meaning import operands, substitution
from gilk.lang.d.meaning.declarations import Declarations
from gilk.lang.d.meaning.scope import Scope
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.syntax.source import Rejected, Span
from gilk.lang.types import STRING, Member, Pointer, Record, Translated, Type, Void, is_scalar, text
from gilk.values import dataclass

Check = Callable[[ast.Expr], ir.Expression]


@dataclass(frozen=True)
class Translator:
    """A translator. ``members``: the declared type and the expression of each member."""

    output: Record
    input: Type
    parameter: str
    members: dict[str, tuple[Member, ast.Expr]]


class Translators:
    """The translators of a program. ``check`` checks expressions without turning arrays into addresses."""

    def __init__(self, scope: Scope, declarations: Declarations, check: Check) -> None:
        self._scope = scope
        self._declarations = declarations
        self._check = check
        self._known: list[Translator] = []

    def define(self, item: items.Translator) -> None:
        """Define a translator. Raises Rejected."""
        found = self._declared(item)
        if any((each.output, each.input) == (found.output, found.input) for each in self._known):
            what = f"translator from {text(found.input)} to {text(found.output)} has already been declared"
            raise Rejected(Tag.D_XLATE_REDECL, _end(item), what)
        for member in item.members:
            self._add(found, member)
        self._known.append(found)
        parameter = self._scope.fresh(found.input)
        for member in item.members:
            self._member(found, member.name, parameter, _end(item))

    def _declared(self, item: items.Translator) -> Translator:
        output = self._declarations.resolved(item.output)
        if not isinstance(output, Record):
            raise Rejected(Tag.D_XLATE_SOU, _end(item), "translator output type must be a struct or union")
        if not output.complete:
            raise Rejected(Tag.D_XLATE_SOU, _end(item), f"incomplete struct/union/enum {text(output)}")
        input_ = self._declarations.resolved(item.input)
        if isinstance(input_, Void):
            raise Rejected(Tag.D_DECL_VOIDOBJ, item.input.span, "a translator cannot be of void")
        for type_, span in ((output, item.output.span), (input_, item.input.span)):
            if isinstance(type_, Record) and not type_.complete:
                raise Rejected(Tag.D_OP_INCOMPLETE, span, f"{text(type_)} is incomplete")
        return Translator(output, input_, item.name, {})

    def _add(self, translator: Translator, member: items.TranslatorMember) -> None:
        known = translator.output.member(member.name)
        if known is None:
            what = f"translator member {member.name} is not a member of {text(translator.output)}"
            raise Rejected(Tag.D_XLATE_MEMB, member.behind, what)
        translator.members.setdefault(member.name, (known, member.value))

    def _member(self, translator: Translator, name: str, operand: ir.Expression, span: Span) -> ir.Expression:
        """The expression of a member, if ``operand`` is translated."""
        member, expression = translator.members[name]
        with self._scope.bound({translator.parameter: operand}):
            found = self._check(expression)
        type_ = self._declarations.complete(member.type)
        if is_translated(found.type, type_) or (found.type == type_ and not is_scalar(type_)):
            return found
        if operands.is_characters(type_) and operands.is_assignable(STRING, found.type):
            return operands.as_string(found, span)
        given = operands.decayed(found)
        mixed = operands.is_mixed(type_, given) and isinstance(type_, Pointer)
        if mixed or not operands.is_assignable(type_, given.type):
            what = f"translator member {name} definition uses incompatible types: "
            raise Rejected(Tag.D_XLATE_INCOMPAT, span, f'{what}"{text(type_)}" = "{text(found.type)}"')
        return operands.converted(type_, found, span)

    # The use of translators.

    def xlate(self, expression: ast.Xlate) -> ir.Expression:
        """The expression for an xlate. Raises Rejected."""
        wanted, operand = self._declarations.resolved(expression.type), self._check(expression.operand)
        return self.translated(wanted, operand, expression.span)

    def translated(self, wanted: Type, operand: ir.Expression, span: Span) -> ir.Expression:
        """``operand`` translated to ``wanted``, which is a struct or a pointer to one. Raises Rejected."""
        output = self._declarations.complete(wanted.to if isinstance(wanted, Pointer) else wanted)
        value = operands.decayed(operand)
        number = self._for(output, value.type) if isinstance(output, Record) else None
        if number is None or not isinstance(output, Record):
            what = f'cannot translate from "{text(value.type)}" to "{text(wanted)}"'
            raise Rejected(Tag.D_XLATE_NONE, span, what)
        type_ = Translated(output, isinstance(wanted, Pointer))
        name, bindings = substitution.bind(self._scope, self._known[number].input, value, span)
        return ir.Xlate(type_, number, name, bindings)

    def known(self, wanted: Type, given: Type) -> bool:
        """Whether there is a translator from ``given`` to ``wanted``."""
        output = wanted.to if isinstance(wanted, Pointer) else wanted
        return isinstance(output, Record) and self._for(output, given) is not None

    def _for(self, output: Record, given: Type) -> int | None:
        """The number of the translator from exactly that type, or else from one to which it can be converted; None if
        there is none.
        """
        fitting = [number for number, each in enumerate(self._known) if each.output == output]
        exact = [number for number in fitting if self._known[number].input == given]
        others = [number for number in fitting if is_fit(self._known[number].input, given)]
        return next(iter((*exact, *others)), None)

    def member(self, base: ir.Xlate, name: str, span: Span) -> ir.Expression:
        """The expression of a member of a translated value. Raises Rejected."""
        translator = self._known[base.translator]
        if translator.output.member(name) is None:
            raise Rejected(Tag.D_TYPE_MEMBER, span, f"{name} is not a member of {text(translator.output)}")
        if name not in translator.members:
            what = f"translator does not define conversion for member: {name}"
            raise Rejected(Tag.D_XLATE_NOCONV, span, what)
        return substitution.let(base.bindings, self._member(translator, name, base.operand, span))


def _end(item: items.Translator) -> Span:
    """The end of a translator, where DTrace reports its mistakes."""
    return Span(max(item.span.end - 1, item.span.start), item.span.end)


def is_translated(found: Type, type_: Type) -> bool:
    """Whether the type is a translation that can be used as a value of ``type_``."""
    if not isinstance(found, Translated):
        return False
    return found.record == (type_.to if isinstance(type_, Pointer) and found.pointer else type_)


def is_fit(type_: Type, given: Type) -> bool:
    return is_translated(given, type_) or operands.is_assignable(type_, given)


def without_pointer(found: ir.Xlate) -> ir.Xlate:
    """The translated struct to which a translated pointer leads."""
    return replace(found, type=Translated(found.type.record, False))
