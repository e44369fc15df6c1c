# SPDX-License-Identifier: LGPL-2.1-or-later
"""How deep a program may go: so that neither the parser nor what comes after it needs more stack than there is."""

from __future__ import annotations

from collections.abc import Iterator

from gilk.lang.d import ast
from gilk.lang.d.tags import SyntaxTag
from gilk.lang.syntax.source import Rejected, Span

#: Brackets in one another. The parser calls itself some seven times for each.
NESTING = 60
#: Nodes above one another. ``a + b + c`` nests nothing, yet is a tree of height 3.
HEIGHT = 200


def too_deep(span: Span) -> Rejected:
    return Rejected(SyntaxTag.D_SYNTAX, span, "too deeply nested", "assign parts of it to variables")


def children(node: ast.Node) -> Iterator[ast.Node]:
    """In source order, as they are declared."""
    for name in type(node).__slots__:
        value = getattr(node, name)
        if isinstance(value, ast.Node):
            yield value
        elif isinstance(value, tuple):
            yield from (one for one in value if isinstance(one, ast.Node))


def check_height(item: ast.Node) -> None:
    """Raise if it is too high. Level by level, as the tree is not yet known to be low."""
    level = [item]
    for _ in range(HEIGHT):
        level = [child for node in level for child in children(node)]
        if not level:
            return
    raise too_deep(level[0].span)
