# SPDX-License-Identifier: LGPL-2.1-or-later
"""Advice as the model runs it: it executes statements of C and yields each effect to its caller."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from gilk.lang.aspect.cells import Cell, converted, integer, truth
from gilk.lang.aspect.evaluate import EFFECTS, Effect, NameScope, effect, evaluate
from gilk.lang.aspect.fragments import Branching, Doing, Fragment, LocalNames, Returning, Several, normal
from gilk.lang.d import ast
from gilk.lang.types import Type
from gilk.values import dataclass

#: A generator that yields effects, is sent their values, and returns the value of the advice, or None if it returns
#: none.
Advised: TypeAlias = Generator[Effect, Cell, Cell | None]


class _Return(Exception):
    def __init__(self, value: Cell | None) -> None:
        super().__init__()
        self.value = value


def run(body: Fragment, scope: LocalScope) -> Advised:
    """Run advice. ``deny`` ends it with -1, as in C. Raises NotTold."""
    try:
        yield from _statement(body, scope)
    except _Return as end:
        return end.value
    return None


def _statement(node: Fragment, scope: LocalScope) -> Generator[Effect, Cell, None]:
    match node:
        case Several(statements=statements):
            with scope.block():
                for one in statements:
                    yield from _statement(one, scope)
        case Doing(value=value):
            yield from _do(value, scope)
        case LocalNames(names=names):
            for new in names:
                first = (yield from _computed(new.value, scope)) if new.value is not None else None
                scope.declare(new.name, new.type, first)
        case Branching(test=test, then=then, otherwise=otherwise):
            chosen = then if truth((yield from _computed(test, scope))) else otherwise
            if chosen is not None:
                yield from _statement(chosen, scope)
        case Returning(value=value):
            raise _Return(None if value is None else (yield from _computed(value, scope)))


def _do(value: ast.Expr, scope: LocalScope) -> Generator[Effect, Cell, None]:
    """Evaluate an expression whose value is not needed, so that events need not give the value of a call of the
    program.
    """
    if isinstance(value, ast.Call) and value.name not in EFFECTS:
        yield from effect(value, scope)
        return
    yield from _computed(value, scope)


def _computed(value: ast.Expr, scope: LocalScope) -> Generator[Effect, Cell, Cell]:
    """Evaluate an expression; ``deny`` in it ends the advice."""
    evaluation = evaluate(value, scope)
    answer: Cell | None = None
    while True:
        try:
            asked = next(evaluation) if answer is None else evaluation.send(answer)
        except StopIteration as end:
            found: Cell = end.value
            return found
        answer = yield asked
        if asked.name == "deny":
            raise _Return(integer(-1))


@dataclass
class _Local:
    type: Type | None
    value: Cell | None


class LocalScope:
    """The names of advice: its own variables, then the names that the match bound, and words of the instance."""

    def __init__(self, outer: NameScope) -> None:
        self._outer = outer
        self._locals: list[dict[str, _Local]] = [{}]
        self._stored: dict[str, Cell] = {}

    @contextmanager
    def block(self) -> Iterator[None]:
        """The block between braces; its names end with it."""
        self._locals.append({})
        yield
        self._locals.pop()

    def declare(self, name: str, type_: Type | None, value: Cell | None) -> None:
        self._locals[-1][name] = _Local(type_, None if value is None else converted(value, type_))

    def named(self, name: str) -> Cell | None:
        found = self._local(name)
        return found.value if found is not None else self._outer.named(name)

    def told(self, text: str) -> Cell | None:
        stored = self._stored.get(normal(text))
        return stored if stored is not None else self._outer.told(text)

    def assign(self, name: str, value: Cell) -> bool:
        found = self._local(name)
        if found is None:
            return self._outer.assign(name, value)
        found.value = converted(value, found.type)
        return True

    def store(self, text: str, value: Cell) -> None:
        self._stored[normal(text)] = value
        self._outer.store(text, value)

    def _local(self, name: str) -> _Local | None:
        return next((names[name] for names in reversed(self._locals) if name in names), None)
