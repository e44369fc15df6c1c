# SPDX-License-Identifier: LGPL-2.1-or-later
"""Calls of functions, and checks that the arguments fit the prototype."""

from __future__ import annotations

from collections.abc import Callable

from gilk.lang import ir
from gilk.lang.d import ast, tree
from gilk.lang.d.meaning import constants, operands
from gilk.lang.d.meaning.functions import FUNCTIONS, IN_A_KERNEL, OF_LOCKS, OF_THE_KERNEL, Callable_, Role
from gilk.lang.d.meaning.scope import Scope
from gilk.lang.d.meaning.tags import Tag
from gilk.lang.syntax.source import Rejected
from gilk.lang.types import (
    DYNAMIC,
    INT,
    INT64,
    STRING,
    UINT64,
    VOID,
    Pointer,
    Record,
    Special,
    String,
    Type,
    is_arithmetic,
    is_scalar,
    text,
)

#: The names in messages of parameters that are no integers.
_PROTOTYPES = {
    "addr": "uintptr_t",
    "ptr": "void *",
    "mem": "void *",
    "in6": "struct in6_addr *",
    "object": "struct mutex *",
    "str": "char *",
    "fmt": "string",
}
_UNCHECKED = ("any", "agg", "rest", "fmt")


def function(call: ast.Call) -> Callable_:
    found = FUNCTIONS.get(call.name)
    if found is None:
        raise Rejected(Tag.D_FUNC_UNDEF, call.span, f"undefined function name: {call.name}")
    return found


def check_length(call: ast.Call, known: Callable_) -> None:
    """Raises Rejected if the number of arguments is wrong."""
    given = len(call.arguments)
    if given < known.least:
        bound, expected = "at least " if known.most is None or known.most > known.least else "", known.least
    elif known.most is not None and given > known.most:
        bound, expected = "at most " if known.most > known.least else "", known.most
    else:
        return
    s = "" if given == 1 else "s"
    raise Rejected(
        Tag.D_PROTO_LEN, call.span,
        f"{call.name}( ) prototype mismatch: {given} arg{s} passed, {bound}{expected} expected",
    )  # fmt: skip


def mismatch(call: ast.Call, number: int, prototype: str, argument: str) -> Rejected:
    return Rejected(
        Tag.D_PROTO_ARG, call.span,
        f"{call.name}( ) argument #{number} is incompatible with prototype:\n\tprototype: {prototype}\n"
        f"\t argument: {argument}",
    )  # fmt: skip


#: The number of the argument that says where a function copies to.
_COPIED_TO = {"bcopy": 2, "copyinto": 3}


class Calls:
    def __init__(self, scope: Scope, check: Callable[[ast.Expr], ir.Expression]) -> None:
        self._scope = scope
        self._check = check

    def subroutine(self, call: ast.Call) -> ir.Expression:
        """The expression for a call that has a value. Raises Rejected."""
        known = function(call)
        arguments = self.arguments(call, known, tuple(map(self._check, call.arguments)))
        if known.role is Role.AGGREGATING:
            return ir.Call(DYNAMIC, known.name, arguments)
        if known.role is not Role.SUBROUTINE and not isinstance(known.type, Special):
            return ir.Call(VOID, known.name, arguments)
        if known.type in (Special.STACK, Special.USTACK):
            return self._stack(call, arguments)
        if call.name in OF_LOCKS and call.name in self._scope.inlines:
            return self._check(ast.Index(call.span, ast.Name(call.span, call.name), call.arguments))
        if call.name in OF_THE_KERNEL and not (self._scope.world.in_kernel and call.name in IN_A_KERNEL):
            raise Rejected(Tag.D_KERNEL, call.span, f"{call.name}( ) is about the kernel, where no clause runs")
        if known.name == "inet_ntoa6" and len(arguments) > 1 and not isinstance(arguments[1], ir.Constant):
            raise Rejected(Tag.D_PROTO_ARG, call.span, "inet_ntoa6( ) argument #2 must be an integer constant")
        if known.name in _COPIED_TO:
            number = _COPIED_TO[known.name]
            self._scope.copies.append((call, number, arguments[number - 1]))
        if known.name == "bcopy" and isinstance(arguments[0].type, String):
            return ir.Call(known.type, "bcopy_string", arguments)
        if known.name in ("alloca", "copyin"):
            self._check_room(call, arguments[-1])
        if known.name == "strtok":
            arguments += self._kept(call)
        return ir.Call(known.type, known.name, arguments)

    @staticmethod
    def arguments(call: ast.Call, known: Callable_, given: tuple[ir.Expression, ...]) -> tuple[ir.Expression, ...]:
        """The arguments as the function takes them: the right number, each converted for its parameter. Raises
        Rejected.
        """
        check_length(call, known)
        kinds = (*known.parameters, *("rest" for _ in given))
        pairs = enumerate(zip(kinds, given, strict=False), 1)
        return tuple(fit(call, number, kind, value) for number, (kind, value) in pairs)

    def _check_room(self, call: ast.Call, size: ir.Expression) -> None:
        room = self._scope.scratchsize
        wanted = size.value & (1 << 64) - 1 if isinstance(size, ir.Constant) else 0
        if wanted > room:
            what = f"{call.name}({wanted}) size larger than scratchsize {room}"
            raise Rejected(Tag.D_ALLOCA_SIZE, call.span, what)

    def _kept(self, call: ast.Call) -> tuple[ir.Expression, ...]:
        """The place where strtok() keeps the rest of its text for the clauses that follow, or () if there is no room
        for one.
        """
        if not self._scope.has_room(STRING):
            return ()
        variable = self._scope.declare(call.span, tree.Variable("(strtok)", "this", STRING))
        return (ir.Place(STRING, "this", variable.offset),)

    def _stack(self, call: ast.Call, arguments: tuple[ir.Expression, ...]) -> ir.Call:
        """The call with its number of frames. A second argument, the room for names of frames, is checked and ignored.

        Raises Rejected.
        """
        frames = self._frames(call, arguments)
        if len(arguments) > 1 and (not isinstance(arguments[1], ir.Constant) or arguments[1].value < 0):
            what = "argument #2 must be a positive integer constant"
            raise Rejected(Tag.D_USTACK_STRSIZE, call.span, f"{call.name}( ) {what}")
        if call.name == "stack" and self._scope.world.in_kernel:
            return ir.Call(Special.STACK, call.name, (ir.Constant(INT, frames),))
        if call.name == "stack" and self._scope.alone:
            return ir.Call(Special.STACK, call.name, (ir.Constant(INT, 0),))
        if call.name == "stack":
            raise Rejected(Tag.D_KERNEL, call.span, f"{call.name}( ) is about the kernel, where no clause runs")
        self._scope.stacks = True
        return ir.Call(Special.USTACK, "ustack", (ir.Constant(INT, frames),))

    def _frames(self, call: ast.Call, arguments: tuple[ir.Expression, ...]) -> int:
        if not arguments:
            frames = self._scope.frames
            return frames.limited({"stack": frames.kernels, "jstack": frames.javas}.get(call.name))
        found = arguments[0]
        if not isinstance(found, ir.Constant) or found.value <= 0:
            tag = Tag.D_STACK_SIZE if call.name == "stack" else Tag.D_USTACK_FRAMES
            what = "a non-zero positive integer constant"
            raise Rejected(tag, call.span, f"{call.name}( ) argument #1 must be {what}")
        return self._scope.frames.limited(found.value)


def is_of_another_context(value: ir.Expression) -> bool:
    """Whether the expression is a call of an action, a call of an aggregating function, or an aggregation, none of
    which can be used as a value.
    """
    if not isinstance(value, ir.Call):
        return False
    known = FUNCTIONS.get(value.name)
    return value.type == DYNAMIC or (value.type == VOID and known is not None and known.role is not Role.SUBROUTINE)


def _is_in6(type_: Type) -> bool:
    """Whether the type is void or a struct in6_addr, which the process or the program may have declared."""
    return type_ == VOID or (isinstance(type_, Record) and (type_.kind, type_.tag) == ("struct", "in6_addr"))


def fit(call: ast.Call, number: int, parameter: str, value: ir.Expression) -> ir.Expression:
    """An argument converted for its parameter. Raises Rejected."""
    given, kind = call.arguments[number - 1], parameter.rstrip("?")
    if kind in _UNCHECKED and (kind, call.name) != ("fmt", "printf"):
        return value
    if (call.name, number) == ("strtok", 1) and operands.is_null(value):
        return operands.NO_STRING
    if kind == "str" and operands.is_null(value) and is_scalar(value.type):
        return operands.as_string(value, given.span, "cast")
    if kind in ("str", "fmt"):
        if not operands.is_text(operands.decayed(value).type) and not operands.holds_text(value):
            raise mismatch(call, number, _PROTOTYPES[kind], text(value.type))
        return value if kind == "fmt" else operands.as_string(value, given.span)
    if kind == "mem" and isinstance(value.type, String):
        return ir.Call(UINT64, "placed", (value,)) if call.name == "copyout" else value
    value = operands.placed(value)
    if kind == "addr":
        if not is_scalar(value.type):
            raise mismatch(call, number, _PROTOTYPES[kind], text(value.type))
        return constants.uncut(UINT64, value)
    if kind in ("ptr", "mem", "in6", "object"):
        is_pointer = isinstance(value.type, Pointer) and (kind != "in6" or _is_in6(value.type.to))
        if not is_pointer and not operands.is_null(value):
            raise mismatch(call, number, _PROTOTYPES[kind], text(value.type))
        return constants.convert(UINT64, value)
    if not is_arithmetic(value.type):
        raise mismatch(call, number, kind, text(value.type))
    return constants.uncut(INT64, value)
