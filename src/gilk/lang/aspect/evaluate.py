# SPDX-License-Identifier: LGPL-2.1-or-later
"""The model's evaluation of C expressions in conditions, binds and advice, from bound names and the values of events.

The scope supplies, by their text, values that only the program could compute: memory, members of structs, its functions
and macros. The evaluation does not carry out a call with an effect: it yields the call and goes on with the value that
it is sent.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator, Mapping
from typing import Protocol, TypeAlias

from gilk.lang.aspect.cells import Cell, Undefined, binary, converted, integer, told, truth, unary
from gilk.lang.aspect.fragments import ctype, expression
from gilk.lang.d import ast
from gilk.lang.d.unparse import expression as unparsed
from gilk.lang.d.unparse import type_name
from gilk.lang.types import CHAR, INT, LONG, LONG_LONG, UINT, UINT64, ULONG, ULONG_LONG, Integer, common, size_of
from gilk.values import dataclass


class NotTold(Exception):
    """No event gives the value of the expression ``text``, or it has none."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class NameScope(Protocol):
    """The names and values that an expression can use at its place."""

    def named(self, name: str) -> Cell | None: ...

    def told(self, text: str) -> Cell | None:
        """The value of an expression that only the program could compute, by its text; None if no event gives it."""

    def assign(self, name: str, value: Cell) -> bool:
        """Assign to a variable that may be written here; return False if ``name`` is no such variable."""

    def store(self, text: str, value: Cell) -> None:
        """Write to memory of the program: from now on the expression ``text`` has that value."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A call that has an effect. ``name`` is one of EFFECTS, or a function of the program whose value is not needed.
    ``texts`` are the arguments as written.
    """

    name: str
    arguments: tuple[Cell, ...]
    texts: tuple[str, ...]


Evaluation: TypeAlias = Generator[Effect, Cell, Cell]

#: How many of the first arguments are words, which are not evaluated, by the name of the function.
EFFECTS: Mapping[str, int] = {
    "proceed": 0, "deny": 0, "report": 0, "add": 1, "join": 1, "leave": 1, "aspect_on": 1, "aspect_off": 1,
}  # fmt: skip
_CONSTANTS = {"NULL": 0, "EOF": -1, "true": 1, "false": 0, **{name: code for code, name in errno.errorcode.items()}}
_SUFFIXES = {"": INT, "u": UINT, "l": LONG, "ul": ULONG, "ll": LONG_LONG, "ull": ULONG_LONG, "char": INT}


def compute(text: str, scope: NameScope) -> Cell:
    """The value of an expression that has no effects. Raises NotTold."""
    given = scope.told(text)
    tree = expression(text)
    if given is not None or tree is None:
        if given is None:
            raise NotTold(text)
        return given
    evaluation = evaluate(tree, scope)
    try:
        effect = next(evaluation)
    except StopIteration as end:
        found: Cell = end.value
        return found
    raise NotTold(f"{effect.name}({', '.join(effect.texts)})")


def evaluate(node: ast.Expr, scope: NameScope) -> Evaluation:
    """Evaluate a tree: yield its effects and return its value. Raises NotTold."""
    try:
        found = yield from _of(node, scope)
    except Undefined as error:
        raise NotTold(unparsed(node)) from error
    return found


def _of(node: ast.Expr, scope: NameScope) -> Evaluation:
    match node:
        case ast.Number():
            return _number(node)
        case ast.Text(value=value):
            return told(value)
        case ast.Name(name=name):
            return _name(name, scope)
        case ast.Binary(op="&&" | "||"):
            return (yield from _logic(node, scope))
        case ast.Binary(op=op, left=left, right=right):
            first = yield from _of(left, scope)
            return binary(op, first, (yield from _of(right, scope)))
        case ast.Conditional(test=test, yes=yes, no=no):
            chosen, other = (yes, no) if truth((yield from _of(test, scope))) else (no, yes)
            return _alike((yield from _of(chosen, scope)), _supposed(other, scope))
        case ast.Comma(left=left, right=right):
            yield from _of(left, scope)
            return (yield from _of(right, scope))
        case ast.Assign():
            return (yield from _assigned(node, scope))
        case ast.Call():
            return (yield from _called(node, scope))
        case ast.Unary(op="++" | "--") | ast.Postfix():
            return (yield from _stepped(node, scope))
        case ast.Unary(op="+" | "-" | "~" | "!" as op, operand=operand):
            return unary(op, (yield from _of(operand, scope)))
        case ast.Cast(type=type_, operand=operand):
            return converted((yield from _of(operand, scope)), ctype(type_name(type_)))
    return (yield from _reached(node, scope))


def _number(node: ast.Number) -> Cell:
    """The value of a number, in the first type that can hold it, beginning with the type of its suffix."""
    type_ = _SUFFIXES[node.suffix]
    if node.suffix == "char":
        return integer(node.value, INT)
    for each in (type_, UINT, LONG, ULONG) if not node.decimal else (type_, LONG, ULONG):
        if each.size >= type_.size and each.signed <= type_.signed and integer(node.value, each).value == node.value:
            return Cell(node.value, each)
    return integer(node.value, UINT64)


def _name(name: str, scope: NameScope) -> Cell:
    found = scope.named(name)
    if found is None:
        found = scope.told(name)
    if found is None and name in _CONSTANTS:
        return integer(_CONSTANTS[name])
    if found is None:
        raise NotTold(name)
    return found


class _Untouched:
    """A scope in which assignments and writes are ignored."""

    def __init__(self, scope: NameScope) -> None:
        self.named, self.told = scope.named, scope.told

    def assign(self, name: str, value: Cell) -> bool:
        return True

    def store(self, text: str, value: Cell) -> None:
        pass


def _supposed(node: ast.Expr, scope: NameScope) -> Cell | None:
    """The value of the way that is not taken, which is needed for its type; None if it cannot be computed."""
    try:
        next(_of(node, _Untouched(scope)))
    except StopIteration as end:
        found: Cell = end.value
        return found
    except (NotTold, Undefined):
        return None
    return None


def _alike(taken: Cell, other: Cell | None) -> Cell:
    """The value of ``?:`` in the common type of both ways."""
    if other is None or not (isinstance(taken.type, Integer) and isinstance(other.type, Integer)):
        return taken
    return converted(taken, common(taken.type, other.type))


def _logic(node: ast.Binary, scope: NameScope) -> Evaluation:
    first = truth((yield from _of(node.left, scope)))
    if first == (node.op == "||"):
        return integer(int(first))
    return integer(int(truth((yield from _of(node.right, scope)))))


def _assigned(node: ast.Assign, scope: NameScope) -> Evaluation:
    value = yield from _of(node.value, scope)
    if node.op != "=":
        value = binary(node.op[:-1], (yield from _of(node.target, scope)), value)
    return _put(node.target, value, scope)


def _put(target: ast.Expr, value: Cell, scope: NameScope) -> Cell:
    if not (isinstance(target, ast.Name) and scope.assign(target.name, value)):
        scope.store(unparsed(target), value)
    return value


def _stepped(node: ast.Unary | ast.Postfix, scope: NameScope) -> Evaluation:
    before = yield from _of(node.operand, scope)
    after = _put(node.operand, binary(node.op[0], before, integer(1)), scope)
    return after if isinstance(node, ast.Unary) else before


def _called(node: ast.Call, scope: NameScope) -> Evaluation:
    """The value of a call: an effect, or the value that an event gives for the call, or that of a function in
    _FUNCTIONS. Raises NotTold.
    """
    if node.name in EFFECTS:
        return (yield from effect(node, scope))
    found = scope.told(unparsed(node))
    if found is not None:
        return found
    if node.name in _FUNCTIONS:
        given = yield from _all(node.arguments, scope)
        if all(isinstance(one.value, str) for one in given[:2]):
            return _FUNCTIONS[node.name](given)
    raise NotTold(unparsed(node))


def effect(node: ast.Call, scope: NameScope) -> Evaluation:
    """Yield the call as an effect, with the values of its arguments, and return the value that is sent. If an argument
    of a call of the program's own function is not known, the effect has no arguments.
    """
    words = EFFECTS.get(node.name, 0)
    try:
        given = yield from _all(node.arguments[words:], scope)
    except NotTold:
        if node.name in EFFECTS:
            raise
        given = ()
    return (yield Effect(node.name, given, tuple(map(unparsed, node.arguments))))


def _all(nodes: tuple[ast.Expr, ...], scope: NameScope) -> Generator[Effect, Cell, tuple[Cell, ...]]:
    found: list[Cell] = []
    for node in nodes:
        value = yield from _of(node, scope)
        found.append(value)
    return tuple(found)


def _reached(node: ast.Expr, scope: NameScope) -> Evaluation:
    """The value of memory, a member or a size: as an event gives it, or a character of a text, or the size of a type of
    C's own. Raises NotTold.
    """
    found = scope.told(unparsed(node))
    if found is not None:
        return found
    match node:
        case ast.Index(base=base, keys=(key,)):
            return _character((yield from _of(base, scope)), (yield from _of(key, scope)), node)
        case ast.Unary(op="*", operand=operand):
            return _character((yield from _of(operand, scope)), integer(0), node)
        case ast.SizeofType(type=type_):
            known = ctype(type_name(type_))
            if known is not None and size_of(known, 0):
                return integer(size_of(known, 0), ULONG)
    raise NotTold(unparsed(node))


def _character(text: Cell, index: Cell, node: ast.Expr) -> Cell:
    """The character of a text at ``index``; the last one is its NUL. Raises NotTold."""
    if isinstance(text.value, str) and isinstance(index.value, int):
        data = text.value.encode("utf-8", "surrogateescape") + b"\0"
        if 0 <= index.value < len(data):
            return integer(data[index.value], CHAR)
    raise NotTold(unparsed(node))


def _sign(a: bytes, b: bytes) -> Cell:
    return integer((a > b) - (a < b))


def _bytes(cell: Cell) -> bytes:
    return str(cell.value).encode("utf-8", "surrogateescape").split(b"\0", 1)[0]


def _strncmp(given: tuple[Cell, ...]) -> Cell:
    count = given[2].value if len(given) > 2 else 0
    if not isinstance(count, int):
        raise Undefined("strncmp")
    return _sign(_bytes(given[0])[:count], _bytes(given[1])[:count])


_FUNCTIONS: dict[str, Callable[[tuple[Cell, ...]], Cell]] = {
    "strcmp": lambda given: _sign(_bytes(given[0]), _bytes(given[1])),
    "strncmp": _strncmp,
    "strlen": lambda given: integer(len(_bytes(given[0])), ULONG),
}
