# SPDX-License-Identifier: LGPL-2.1-or-later
"""Qualifiers: what they bind and demand, and with which join points they can stand."""

from __future__ import annotations

from gilk.lang.aspect import ast
from gilk.lang.aspect.checked import (
    BindingSource,
    CheckedAlias,
    CheckedBinding,
    CheckedCode,
    CheckedDemand,
    CheckedGlobal,
    CheckedPoint,
    CheckedStep,
    CheckedType,
    last_of,
)
from gilk.lang.aspect.ctypes import as_parameter, checked_type, is_void, resolved
from gilk.lang.aspect.meaning.findings import PlainMatch
from gilk.lang.aspect.meaning.points import last_call
from gilk.lang.aspect.meaning.scope import AspectScope
from gilk.lang.aspect.tags import AspectTag
from gilk.lang.d.ast import ArrayOf, TypeName
from gilk.lang.syntax.source import Span
from gilk.lang.types import INT64, ULONG

_WORD = {"size": CheckedType("unsigned long", ULONG, 8), "offset": CheckedType("long", INT64, 8)}


class QualifierReader:
    """The reader of the qualifiers of one match, in order; ``args`` come first wherever they stand."""

    def __init__(self, match: PlainMatch, point: CheckedPoint, scope: AspectScope) -> None:
        self._match, self._scope = match, scope
        self._call = last_call(match.term)
        self._point = last_of(point)

    def steps(self) -> tuple[CheckedStep, ...]:
        found = list[CheckedStep]()
        for one in self._match.qualifiers:
            if isinstance(one, ast.ArgsQualifier):
                found += self._args(one)
        for one in self._match.qualifiers:
            match one:
                case ast.GivesQualifier():
                    found += self._gives(one)
                case ast.BindQualifier():
                    found += self._bind(one)
                case ast.IfQualifier(condition=condition):
                    found.append(CheckedDemand(self._scope.c(condition)))
        return tuple(found)

    def callers(self) -> tuple[CheckedCode, ...]:
        found = [one for one in self._match.qualifiers if isinstance(one, ast.FromQualifier)]
        for one in found:
            if self._call is None:
                self._wrong(one.span, "an access has no caller", "in(functions) says whose code accesses")
        return tuple(_code(each) for one in found for each in one.callers)

    def within(self) -> tuple[CheckedCode, ...]:
        found = [one for one in self._match.qualifiers if isinstance(one, ast.InQualifier)]
        for one in found:
            if self._call is not None:
                self._wrong(one.span, "in(...) is of accesses, and this is a call", "from(functions) names callers")
        return tuple(_code(each) for one in found for each in one.where)

    def _args(self, one: ast.ArgsQualifier) -> list[CheckedStep]:
        call = self._call
        if call is None:
            self._wrong(one.span, "an access has no arguments")
            return []
        if call.parameters is None:
            self._misfit(one, "arguments can be bound only where their types are declared")
            return []
        if len(call.parameters) != len(one.names):
            self._misfit(one, f"{len(one.names)} names for {len(call.parameters)} parameters")
            return []
        found = list[CheckedStep]()
        for number, (name, parameter) in enumerate(zip(one.names, call.parameters, strict=True)):
            if name.text != "_" and (parameter.name is None or parameter.name.text != name.text):
                type_ = checked_type(as_parameter(parameter.type), self._scope.kernel)
                found.append(self._bound(name, type_, BindingSource.ARGUMENT, number))
        return found

    def _misfit(self, one: ast.ArgsQualifier, why: str) -> None:
        self._scope.findings.say(AspectTag.A_SIGNATURE, one.span, why, "_ for one that is of no use")

    def _gives(self, one: ast.GivesQualifier) -> list[CheckedStep]:
        type_ = self._given(one)
        if type_ is None:
            self._scope.bind(one.name.text, CheckedType(""), one.name.span)  # one mistake is reported once
        if type_ is None or one.name.text == "_":
            return []
        return [self._bound(one.name, type_, BindingSource(one.what))]

    def _given(self, one: ast.GivesQualifier) -> CheckedType | None:
        """The type of the value that a qualifier gives; None, after reporting it, if there is no such value."""
        point = self._point
        if one.what == "return":
            return self._returned(one)
        if not isinstance(point, CheckedGlobal | CheckedAlias):
            return self._none(one.span, f"{one.what} is of accesses, and this is a call", "return, args")
        if one.what == "old" and not point.write:
            return self._none(one.span, "a read changes nothing: it has no old value", "value gives what is read")
        if one.what in _WORD:
            return _WORD[one.what]
        return point.type if point.type.size in (1, 2, 4, 8) else CheckedType("unsigned long", ULONG, 8)

    def _returned(self, one: ast.GivesQualifier) -> CheckedType | None:
        if self._call is None:
            return self._none(one.span, "an access returns nothing", "value gives what is read or written")
        if is_void(resolved(self._call.result)):
            return self._none(one.span, f"{self._call.function.name} returns nothing: it is void")
        return checked_type(self._call.result, self._scope.kernel)

    def _bind(self, one: ast.BindQualifier) -> list[CheckedStep]:
        expression = self._scope.c(one.expression)
        type_ = CheckedType("") if one.type is None else checked_type(one.type, self._scope.kernel)
        if one.name.text == "_":
            return []
        if is_void(type_.type) or _unsized(one.type):
            self._wrong(one.name.span, f"{one.name.text} has no size as {type_.text}", f"char {one.name.text}[64]")
        step = self._bound(one.name, type_, BindingSource.EXPRESSION)
        return [CheckedBinding(step.name, step.type, step.source, step.span, step.test, expression=expression)]

    def _bound(self, name: ast.Ident, type_: CheckedType, source: BindingSource, number: int = 0) -> CheckedBinding:
        place = len(self._match.term.outer) if isinstance(self._match.term, ast.FlowPattern) else 0
        test = self._scope.bind(name.text, type_, name.span)
        return CheckedBinding(name.text, type_, source, name.span, test, number, place)

    def _none(self, span: Span, why: str, hint: str = "") -> CheckedType | None:
        self._wrong(span, why, hint)
        return None

    def _wrong(self, span: Span, why: str, hint: str = "") -> None:
        self._scope.findings.say(AspectTag.A_TYPE, span, why, hint)


def _unsized(written: TypeName | None) -> bool:
    """Whether an array has no size; such a type is a pointer only as a parameter."""
    shape = written.declarator.shape if written is not None else ()
    return any(isinstance(one, ArrayOf) and one.size is None for one in shape)


def _code(pattern: ast.CodePattern) -> CheckedCode:
    if pattern.image is not None:
        return CheckedCode(pattern.image, pattern.name)
    return CheckedCode("", pattern.name) if pattern.quoted else CheckedCode("", "", pattern.name)
