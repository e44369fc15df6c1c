# SPDX-License-Identifier: LGPL-2.1-or-later
"""The names in the kernel's C whose values a process may have written: those of instances in memory shared with
processes.

The kernel may compute with such values and compare them, but it does not read memory at addresses that they give.
Otherwise a process could make the kernel show, in the shared memory, memory that is not the process's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, fields

from gilk.lang.d import ast
from gilk.values import dataclass


@dataclass(frozen=True, slots=True)
class Foreign:
    """The values that processes may have written. ``names``: names of an instance. ``texts``: those among them that are
    arrays of characters, which end within themselves. ``loading``: macros that read memory. ``text_keys``: for each
    table, which parts of its key are arrays.
    """

    names: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    loading: frozenset[str] = frozenset()
    text_keys: Mapping[str, tuple[bool, ...]] = field(default_factory=dict)


class ForeignNames:
    """The foreign names at one place of an element; assignments to names add and remove them."""

    def __init__(self, foreign: Foreign) -> None:
        self.foreign, self.names, self._texts = foreign, set(foreign.names), set(foreign.texts)

    def are_in(self, node: object) -> list[str]:
        """The foreign names in a tree, sorted."""
        return sorted({one.name for one in _named_in(node)} & self.names)

    def given(self, name: str, value: ast.Expr | None) -> None:
        """Note that from now on the name has the value of an expression; None: a value of the kernel's own."""
        (self.names.add if self.are_in(value) else self.names.discard)(name)

    def declared(self, name: str, value: ast.Expr | None) -> None:
        """Note that a variable of the fragment's own has that name until its block ends."""
        self._texts.discard(name)
        self.given(name, value)

    def lead(self, node: ast.Expr) -> list[str]:
        """The foreign names that determine the address of memory that begins at the value of an expression."""
        return [] if isinstance(node, ast.Name) and node.name in self._texts else self.are_in(node)


def _named_in(node: object) -> Iterator[ast.Name]:
    """All names in a tree."""
    if isinstance(node, ast.Name):
        yield node
    elif isinstance(node, tuple):
        for one in node:
            yield from _named_in(one)
    elif isinstance(node, ast.Node):
        for each in fields(node):
            yield from _named_in(getattr(node, each.name))
