# SPDX-License-Identifier: LGPL-2.1-or-later
"""Calls, and whether what is handed over fits the prototype."""

from __future__ import annotations

from collections.abc import Callable

from gilk.lang import ir
from gilk.lang.d import ast, tree
from gilk.lang.d.meaning import constants, operands
from gilk.lang.d.meaning.functions import FUNCTIONS, OF_THE_KERNEL, Callable_, Role
from gilk.lang.d.meaning.scope import Scope
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.syntax.source import Rejected
from gilk.lang.types import INT, INT64, STRING, UINT64, Special, is_arithmetic, is_scalar, text

_PROTOTYPES = {"int": "integer", "addr": "pointer", "str": "string", "id": "int", "agg": "aggregation", "fmt": "string"}


def function(call: ast.Call) -> Callable_:
    found = FUNCTIONS.get(call.name)
    if found is None:
        raise Rejected(Tag.D_FUNC_UNDEF, call.span, f"undefined function name: {call.name}")
    return found


def check_length(call: ast.Call, known: Callable_, extra: int = 0) -> None:
    """Raises Rejected; ``extra``: of what the prototype counts, how many are not among the arguments."""
    given = len(call.arguments)
    if given < known.least - extra or (known.most is not None and given > known.most - extra):
        at_least = "at least " if known.most is None or known.most > known.least else ""
        s = "" if given == 1 else "s"
        raise Rejected(
            Tag.D_PROTO_LEN, call.span,
            f"{call.name}( ) prototype mismatch: {given} arg{s} passed, {at_least}{known.least} expected",
        )  # fmt: skip


def mismatch(call: ast.Call, number: int, prototype: str, argument: str) -> Rejected:
    return Rejected(
        Tag.D_PROTO_ARG, call.span,
        f"{call.name}( ) argument #{number} is incompatible with prototype:\n\tprototype: {prototype}\n"
        f"\t argument: {argument}",
    )  # fmt: skip


class Calls:
    def __init__(self, scope: Scope, check: Callable[[ast.Expr], ir.Expression]) -> None:
        self._scope = scope
        self._check = check

    def subroutine(self, call: ast.Call) -> ir.Expression:
        """A call that has a value. Raises Rejected."""
        known = function(call)
        if known.role is Role.AGGREGATING:
            raise Rejected(
                Tag.D_AGG_CONTEXT, call.span, f"{call.name}( ) can only be used to aggregate: @ = {call.name}( )"
            )
        if known.role is not Role.SUBROUTINE and not isinstance(known.type, Special):
            raise Rejected(Tag.D_ACT_CONTEXT, call.span, f"{call.name}( ) is an action, and has no value")
        check_length(call, known)
        arguments = tuple(
            self.argument(call, number, kind) for number, kind in enumerate(known.parameters[: len(call.arguments)], 1)
        )
        if known.type in (Special.STACK, Special.USTACK):
            return self._stack(call, arguments)
        if known.name == "strtok":
            arguments += self._kept(call)
        return ir.Call(known.type, known.name, arguments)

    def _kept(self, call: ast.Call) -> tuple[ir.Expression, ...]:
        """Where strtok() keeps the rest of its text for the clauses that follow, if there is room for one."""
        if not self._scope.has_room(STRING):
            return ()
        variable = self._scope.declare(call.span, tree.Variable("(strtok)", "this", STRING))
        return (ir.Place(STRING, "this", variable.offset),)

    def _stack(self, call: ast.Call, arguments: tuple[ir.Expression, ...]) -> ir.Call:
        """With its number of frames. What a second argument sets aside for the names of frames nobody needs here."""
        frames = self._frames(call, arguments)
        if len(arguments) > 1 and (not isinstance(arguments[1], ir.Constant) or arguments[1].value < 0):
            what = "argument #2 must be a positive integer constant"
            raise Rejected(Tag.D_USTACK_STRSIZE, call.span, f"{call.name}( ) {what}")
        if call.name in OF_THE_KERNEL:
            raise Rejected(Tag.D_KERNEL, call.span, f"{call.name}( ) is about the kernel, where no clause runs")
        if call.name == "jstack":
            raise Rejected(Tag.D_UNSUPPORTED, call.span, "jstack( ) is not implemented (yet)")
        self._scope.stacks = True
        return ir.Call(Special.USTACK, call.name, (ir.Constant(INT, frames),))

    def _frames(self, call: ast.Call, arguments: tuple[ir.Expression, ...]) -> int:
        if not arguments:
            return self._scope.frames.limited()
        found = arguments[0]
        if not isinstance(found, ir.Constant) or found.value <= 0:
            tag = Tag.D_STACK_SIZE if call.name == "stack" else Tag.D_USTACK_FRAMES
            what = "a non-zero positive integer constant"
            raise Rejected(tag, call.span, f"{call.name}( ) argument #1 must be {what}")
        return self._scope.frames.limited(found.value)

    def argument(self, call: ast.Call, number: int, parameter: str) -> ir.Expression:
        """Checked and converted. Raises Rejected."""
        return fit(call, number, parameter, self._check(call.arguments[number - 1]))


def fit(call: ast.Call, number: int, parameter: str, value: ir.Expression) -> ir.Expression:
    """An argument converted to what its parameter takes. Raises Rejected."""
    given, kind = call.arguments[number - 1], parameter.rstrip("?")
    if (call.name, number) == ("strtok", 1) and operands.is_null(value):
        return operands.NO_STRING
    if kind == "str":
        if not operands.is_text(operands.decayed(value).type) and not operands.holds_text(value):
            raise mismatch(call, number, "string", text(value.type))
        return operands.as_string(value, given.span)
    value = operands.decayed(value)
    if kind in ("int", "id"):
        if not is_arithmetic(value.type):
            raise mismatch(call, number, _PROTOTYPES[kind], text(value.type))
        return constants.convert(INT64, value)
    if kind == "addr":
        if not is_scalar(value.type):
            raise mismatch(call, number, "pointer", text(value.type))
        return constants.convert(UINT64, value)
    return value
