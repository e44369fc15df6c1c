# SPDX-License-Identifier: LGPL-2.1-or-later
"""C expressions of conditions, binds and advice, computed from what is bound and what an event tells.

The scope is asked, by their text, for values that only the program could tell: memory, members of structs, its
functions and macros. A call with an effect is not carried out here: the evaluation yields it, and goes on with what
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
    """Nobody says what ``text`` is, or it has no value."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class NameScope(Protocol):
    """The meaning of names where an expression stands."""

    def named(self, name: str) -> Cell | None: ...

    def told(self, text: str) -> Cell | None:
        """The value of an expression that only the program could compute, by its text; None if nobody says."""

    def assign(self, name: str, value: Cell) -> bool:
        """Whether it is a variable that may be written here."""

    def store(self, text: str, value: Cell) -> None:
        """Memory of the program is written: from here on the expression has that value."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A call that does something: ``name`` is of EFFECTS, or a function of the program whose value nobody needs.

    ``texts`` are the arguments as written.
    """

    name: str
    arguments: tuple[Cell, ...]
    texts: tuple[str, ...]


Evaluation: TypeAlias = Generator[Effect, Cell, Cell]

#: How many arguments are words, not values, at the front of each.
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
    """Raises NotTold."""
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
    """In the first type, from that of the suffix on, which holds it."""
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
    """A scope in which nothing is written."""

    def __init__(self, scope: NameScope) -> None:
        self.named, self.told = scope.named, scope.told

    def assign(self, name: str, value: Cell) -> bool:
        return True

    def store(self, text: str, value: Cell) -> None:
        pass


def _supposed(node: ast.Expr, scope: NameScope) -> Cell | None:
    """The value of a way that is not taken, for the sake of its type; None where it cannot be known."""
    try:
        next(_of(node, _Untouched(scope)))
    except StopIteration as end:
        found: Cell = end.value
        return found
    except (NotTold, Undefined):
        return None
    return None


def _alike(taken: Cell, other: Cell | None) -> Cell:
    """The value of ``?:`` has the type that both ways are converted to."""
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
    """An effect, a function that the model has, or what is told of the whole call."""
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
    """Yields it, with the values of its arguments, and returns what is sent. Arguments that nobody tells are left out
    of a call of the program's own.
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
    """Memory, members, sizes: told, or a character of a text, or the size of a type of C's own."""
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
    """A character of a text; its NUL is the last."""
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
