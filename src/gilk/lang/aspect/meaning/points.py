# SPDX-License-Identifier: LGPL-2.1-or-later
"""Join points with their types, and the names that their parameters bind."""

from __future__ import annotations

from gilk.lang.aspect import ast
from gilk.lang.aspect.checked import (
    BindingSource,
    CheckedAlias,
    CheckedBinding,
    CheckedFlow,
    CheckedFunction,
    CheckedGlobal,
    CheckedPoint,
    CheckedType,
)
from gilk.lang.aspect.ctypes import (
    as_parameter,
    checked_type,
    is_float,
    is_incomplete,
    is_void,
    resolved,
    size_in_bytes,
    unusual,
)
from gilk.lang.aspect.meaning.findings import PrimitiveTerm
from gilk.lang.aspect.meaning.scope import AspectScope
from gilk.lang.aspect.tags import AspectTag
from gilk.lang.d.ast import TypeName
from gilk.lang.types import Array, Pointer


def point(term: PrimitiveTerm, scope: AspectScope) -> CheckedPoint:
    match term:
        case ast.CallPattern():
            return _function(term, scope)
        case ast.GlobalPattern():
            return _global(term, scope)
        case ast.AliasPattern():
            return _alias(term, scope)
        case ast.FlowPattern(strict=strict, outer=outer, last=last):
            functions = tuple(_function(one, scope) for one in outer)
            inner = _function(last, scope) if isinstance(last, ast.CallPattern) else _global(last, scope)
            return CheckedFlow(strict, functions, inner, term.span)


def functions(term: PrimitiveTerm) -> tuple[ast.CallPattern, ...]:
    """The calls that ``term`` names, outermost first."""
    match term:
        case ast.CallPattern():
            return (term,)
        case ast.FlowPattern(outer=outer, last=last):
            return (*outer, last) if isinstance(last, ast.CallPattern) else outer
    return ()


def last_call(term: PrimitiveTerm) -> ast.CallPattern | None:
    """The call at which ``term`` matches; None if it matches an access."""
    happens = term.last if isinstance(term, ast.FlowPattern) else term
    return happens if isinstance(happens, ast.CallPattern) else None


def parameters(term: PrimitiveTerm, scope: AspectScope) -> tuple[CheckedBinding, ...]:
    """A binding for each parameter that has a name."""
    found = list[CheckedBinding]()
    for place, call in enumerate(functions(term)):
        seen = set[str]()
        for number, parameter in enumerate(call.parameters or ()):
            name = parameter.name
            if name is None or name.text == "_":
                continue
            if scope.walk and call is not last_call(term):
                why = f"the stack does not have the arguments of {call.function.name}"
                scope.findings.say(AspectTag.A_UNBOUND, name.span, why, "leave the name out, or `walk`")
                continue
            if name.text in seen:
                scope.findings.say(AspectTag.A_SIGNATURE, name.span, f"there is a parameter {name.text} already")
                continue
            seen.add(name.text)
            type_ = checked_type(as_parameter(parameter.type), scope.kernel)
            test = scope.bind(name.text, type_, name.span)
            found.append(CheckedBinding(name.text, type_, BindingSource.ARGUMENT, name.span, test, number, place))
    return tuple(found)


def _function(call: ast.CallPattern, scope: AspectScope) -> CheckedFunction:
    _signature(call, scope)
    given = None if call.parameters is None else tuple(_parameter(one, scope) for one in call.parameters)
    result = checked_type(call.result, scope.kernel)
    return CheckedFunction(
        call.function.image or "", call.function.name, not call.function.glob, result, given, call.variadic, call.span
    )


def _signature(call: ast.CallPattern, scope: AspectScope) -> None:
    result = resolved(call.result)
    if isinstance(result, Array) or (is_incomplete(result) and getattr(result, "kind", "") == "function"):
        why = "a function returns neither arrays nor functions"
        scope.findings.say(AspectTag.A_SIGNATURE, call.result.span, why, "a pointer, perhaps")
    for one in call.parameters or ():
        if is_void(resolved(one.type)):
            why = "a parameter has no value if it is void"
            scope.findings.say(AspectTag.A_SIGNATURE, one.span, why, "(void) alone is: no parameters")
    for written in (call.result, *(as_parameter(one.type) for one in call.parameters or ())):
        _passed(written, scope)


def _passed(written: TypeName, scope: AspectScope) -> None:
    why = unusual(written)
    if not why and scope.kernel and is_float(resolved(written)):
        why = "floating-point numbers in the kernel"
    if why:
        scope.findings.say(AspectTag.A_ABI, written.span, f"{why} are passed where advice cannot see them")


def _parameter(one: ast.Declared, scope: AspectScope) -> CheckedType:
    return checked_type(as_parameter(one.type), scope.kernel)


def _global(term: ast.GlobalPattern, scope: AspectScope) -> CheckedGlobal:
    if is_void(resolved(term.type)):
        scope.findings.say(AspectTag.A_TYPE, term.type.span, "a variable is not void")
    path = ".".join(one.text for one in (term.name, *term.members))
    type_ = checked_type(term.type, scope.kernel)
    return CheckedGlobal(term.write, term.image or "", path, type_, term.span)


def _alias(term: ast.AliasPattern, scope: AspectScope) -> CheckedAlias:
    name = term.name
    bound = scope.typed(name.text)
    length = scope.c(term.length) if term.length is not None else None
    if bound is None and not scope.findings.tells(AspectTag.A_FIRST_ACCESS, term.span):
        scope.unbound(name.text, name.span)
    type_ = bound.type if bound is not None else None
    if type_ is not None and not isinstance(type_, Pointer) and not is_incomplete(type_):
        why = f"{name.text} is no pointer: memory is found by its address"
        scope.findings.say(AspectTag.A_TYPE, name.span, why, f"bind(void *{name.text}, ...)")
    if length is None and (not isinstance(type_, Pointer) or is_void(type_.to)) and bound is not None:
        why = f"nobody says how long the memory is that {name.text} leads to"
        scope.findings.say(AspectTag.A_TYPE, name.span, why, f"write({name.text}, 64): 64 bytes")
    return CheckedAlias(term.write, name.text, length, _pointed(bound), term.span)


def _pointed(bound: CheckedType | None) -> CheckedType:
    if bound is None or not isinstance(bound.type, Pointer):
        return CheckedType("")
    inner = bound.type.to
    text = bound.text.replace("*", "", 1).strip() if bound.text.count("*") == 1 else bound.text[:-1].strip()
    if is_void(inner):
        return CheckedType("void", inner, None)
    return CheckedType(text, None if is_incomplete(inner) else inner, size_in_bytes(inner))
